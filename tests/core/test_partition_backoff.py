"""Whether a partition waits after a job failed, and whether that counts against it."""

import pytest
from pyiceberg.manifest import FileFormat

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.holds import Hold
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.partition_backoff import (
    EXCUSED,
    IN_VAIN,
    MAX_OUTAGE_MS,
    MAX_RETRY_MS,
    OUTAGES,
    RETRY_MS,
    setback,
)

TABLE = TableId("u", "db.t")
KEY = PartitionKey("{}")
NOW_MS = 1_000_000
HOUR_MS = 3_600_000
REST_MS = 24 * HOUR_MS


def after(*reasons: Reason) -> Hold | None:
    """What holds the partition back after these failures, each at the moment when it might be tried again."""
    hold, now_ms = None, NOW_MS
    for reason in reasons:
        hold = setback(TABLE, KEY, Refusal(reason, "a test"), hold, REST_MS, now_ms)
        now_ms = now_ms if hold is None or hold.until_ms is None else hold.until_ms
    return hold


def waits_ms(hold: Hold | None) -> int:
    assert hold is not None
    assert hold.until_ms is not None
    return hold.until_ms - hold.at_ms


@pytest.mark.parametrize("reason", sorted(EXCUSED))
def test_what_the_stream_or_a_person_ended_holds_nothing_back(reason: Reason) -> None:
    assert after(reason) is None


@pytest.mark.parametrize("reason", sorted(OUTAGES))
def test_an_outage_lets_the_partition_wait_and_counts_against_nobody(reason: Reason) -> None:
    once, often = after(reason), after(*[reason] * 50)

    assert [(RETRY_MS, 0), (MAX_OUTAGE_MS, 0)] == [
        (waits_ms(hold), hold.failures) for hold in (once, often) if hold is not None
    ]


def test_intents_that_come_all_the_time_let_a_job_be_begun_once_an_hour_and_blame_nobody() -> None:
    holds = [after(*[Reason.INTENT] * times) for times in (1, 2, 3, 50)]

    assert [waits_ms(hold) // RETRY_MS for hold in holds] == [1, 2, 4, 60]
    assert [hold.failures for hold in holds if hold is not None] == [0] * 4


@pytest.mark.parametrize("reason", sorted(IN_VAIN))
def test_a_partition_that_was_written_while_a_job_ran_waits_each_time_twice_as_long(reason: Reason) -> None:
    waits = [after(*[reason] * times) for times in (1, 2, 3, 50)]

    assert [waits_ms(hold) for hold in waits] == [HOUR_MS, 2 * HOUR_MS, 4 * HOUR_MS, REST_MS]
    assert [hold.failures for hold in waits if hold is not None] == [0] * 4


LOOKED_FOR = {Reason.NOTHING_TO_DO, Reason.OUTPUT_SPEC}
"""Nobody's coming back ended such a job, and the files say the same tomorrow."""


@pytest.mark.parametrize("reason", sorted(IN_VAIN - LOOKED_FOR))
def test_a_policy_without_a_rest_holds_nothing_back_after_a_job_in_vain(reason: Reason) -> None:
    assert setback(TABLE, KEY, Refusal(reason, "a test"), None, 0, NOW_MS) is None


@pytest.mark.parametrize("reason", sorted(LOOKED_FOR))
def test_where_there_is_nothing_to_do_nothing_is_begun_again_and_again_whatever_the_rest(
    reason: Reason,
) -> None:
    hold, waits = None, []
    for _ in range(7):
        hold = setback(TABLE, KEY, Refusal(reason, "a test"), hold, 0, NOW_MS)
        waits.append(waits_ms(hold))

    assert waits == [hours * HOUR_MS for hours in (1, 2, 4, 8, 16, 24, 24)]


def test_a_job_in_vain_long_ago_makes_no_wait_longer() -> None:
    first = after(Reason.CANCELLED, Reason.CANCELLED, Reason.CANCELLED)
    assert first is not None
    assert first.until_ms is not None

    again = setback(TABLE, KEY, Refusal(Reason.CANCELLED, "a test"), first, REST_MS, first.until_ms + REST_MS)

    assert waits_ms(again) == HOUR_MS


def test_a_partitions_own_failures_count_and_its_waits_double_up_to_a_day() -> None:
    holds = [after(*[Reason.CORRUPT_FILE] * times) for times in (1, 2, 3, 50)]

    assert [
        (RETRY_MS, 1),
        (2 * RETRY_MS, 2),
        (4 * RETRY_MS, 3),
        (MAX_RETRY_MS, 50),
    ] == [(waits_ms(hold), hold.failures) for hold in holds if hold is not None]


def test_an_outage_forgets_no_failure_of_before() -> None:
    hold = after(Reason.CORRUPT_FILE, Reason.CORRUPT_FILE, Reason.STORAGE, Reason.CORRUPT_FILE)

    assert hold is not None
    assert hold.failures == 3


def test_the_first_crash_costs_nothing() -> None:
    assert (0, 2 * RETRY_MS) == (
        waits_ms(after(Reason.CRASHED)),
        waits_ms(after(Reason.CRASHED, Reason.CRASHED)),
    )


def test_what_holds_it_back_says_the_word_and_the_sentence() -> None:
    hold = setback(TABLE, KEY, Refusal(Reason.CLOCK, "it jumped"), None, REST_MS, NOW_MS)

    assert hold is not None
    assert hold.why == "clock: it jumped"


BLAMED = {
    Reason.AMBIGUOUS_FIELDS,
    Reason.CORRUPT_FILE,
    Reason.CRASHED,
    Reason.DEADLINE,
    Reason.DELETES_ELSEWHERE,
    Reason.ENCRYPTED,
    Reason.EQUALITY_DELETES,
    Reason.FILE_TWICE,
    Reason.FORMAT_AVRO,
    Reason.FORMAT_ORC,
    Reason.FORMAT_PUFFIN,
    Reason.KILLED,
    Reason.LOCATION,
    Reason.MISMATCH,
    Reason.MISSING_FILE,
    Reason.OUT_OF_MEMORY,
    Reason.REFUSED,
    Reason.TWO_SPELLINGS,
    Reason.UNEXPECTED,
}
"""Ends that count against a partition; for the catalog's refusal of a request nobody else can be found."""
NO_FAILURE_OF_A_PARTITION = {
    Reason.COMMITTED,
    Reason.UNKNOWN,
    Reason.NO_ANSWER,
    Reason.STALE,
    Reason.GC_DISABLED,
    Reason.UNSUPPORTED,
    Reason.ORPHANS,
    Reason.OTHER_HISTORY,
    Reason.LOST_REFS,
    Reason.TWO_ENTRIES,
}
"""Ends that are none, or of other work than compactions."""


def test_every_end_of_a_compaction_is_somebodys_fault() -> None:
    """A new word for an end must be weighed: who is to blame for it?"""
    parts = [EXCUSED, OUTAGES, IN_VAIN, BLAMED, NO_FAILURE_OF_A_PARTITION]

    assert set(Reason) == set().union(*parts)
    assert len(Reason) == sum(len(part) for part in parts)


@pytest.mark.parametrize("file_format", sorted(set(FileFormat) - {FileFormat.PARQUET}))
def test_every_format_of_a_file_that_is_not_read_has_a_word(file_format: FileFormat) -> None:
    assert Reason(f"format_{file_format.value.lower()}") in BLAMED


def test_that_nothing_can_be_moved_neither_forgets_failures_nor_lengthens_the_waits_of_others() -> None:
    """A move is bound between two failures of the jobs in the older spec."""
    in_turn = [Reason.UNEXPECTED, Reason.OUTPUT_SPEC] * 3
    holds = [after(*in_turn[:times]) for times in range(1, 7)]

    assert [hold.failures for hold in holds if hold is not None] == [1, 1, 2, 2, 3, 3]
    moved_late = after(*[Reason.OUTPUT_SPEC] * 50, Reason.CONFLICT)
    assert waits_ms(moved_late) == waits_ms(after(Reason.CONFLICT))
    assert waits_ms(after(*[Reason.OUTPUT_SPEC] * 50, Reason.CATALOG)) == RETRY_MS


def test_that_nothing_can_be_moved_is_asked_again_within_a_day_however_long_the_rest() -> None:
    hold = None
    for _ in range(9):
        hold = setback(TABLE, KEY, Refusal(Reason.OUTPUT_SPEC, "a test"), hold, 7 * MAX_RETRY_MS, NOW_MS)

    assert waits_ms(hold) == MAX_RETRY_MS
