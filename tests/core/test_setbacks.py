"""Whether a partition waits after a job failed, and whether that counts against it."""

import pytest

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.holds import Hold
from isotherm.core.setbacks import EXCUSED, MAX_OUTAGE_MS, MAX_RETRY_MS, OUTAGES, RETRY_MS, setback

TABLE = TableId("u", "db.t")
KEY = PartitionKey("{}")
NOW_MS = 1_000_000


def after(*reasons: str) -> Hold | None:
    """What holds the partition back after these failures, each at the moment when it might be tried again."""
    hold, now_ms = None, NOW_MS
    for reason in reasons:
        hold = setback(TABLE, KEY, reason, "a test", hold, now_ms)
        now_ms = now_ms if hold is None or hold.until_ms is None else hold.until_ms
    return hold


def waits_ms(hold: Hold | None) -> int:
    assert hold is not None
    assert hold.until_ms is not None
    return hold.until_ms - hold.at_ms


@pytest.mark.parametrize("reason", sorted(EXCUSED))
def test_what_the_stream_or_a_person_ended_holds_nothing_back(reason: str) -> None:
    assert after(reason) is None


@pytest.mark.parametrize("reason", sorted(OUTAGES))
def test_an_outage_lets_the_partition_wait_and_counts_against_nobody(reason: str) -> None:
    once, often = after(reason), after(*[reason] * 50)

    assert [(RETRY_MS, 0), (MAX_OUTAGE_MS, 0)] == [
        (waits_ms(hold), hold.failures) for hold in (once, often) if hold is not None
    ]


def test_a_partitions_own_failures_count_and_its_waits_double_up_to_a_day() -> None:
    holds = [after(*["corrupt_file"] * times) for times in (1, 2, 3, 50)]

    assert [
        (RETRY_MS, 1),
        (2 * RETRY_MS, 2),
        (4 * RETRY_MS, 3),
        (MAX_RETRY_MS, 50),
    ] == [(waits_ms(hold), hold.failures) for hold in holds if hold is not None]


def test_an_outage_forgets_no_failure_of_before() -> None:
    hold = after("corrupt_file", "corrupt_file", "storage", "corrupt_file")

    assert hold is not None
    assert hold.failures == 3


def test_the_first_crash_costs_nothing() -> None:
    assert (0, 2 * RETRY_MS) == (waits_ms(after("crashed")), waits_ms(after("crashed", "crashed")))
