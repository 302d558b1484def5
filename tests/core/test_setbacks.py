"""Whether a partition waits after a job failed, and whether that counts against it."""

import re
from pathlib import Path

import pytest

import isotherm.core
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.holds import Hold
from isotherm.core.setbacks import EXCUSED, MAX_OUTAGE_MS, MAX_RETRY_MS, OUTAGES, RETRY_MS, setback
from isotherm.iceberg.compaction.failures import FailureKind

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


def test_what_holds_it_back_says_the_word_once() -> None:
    whys = ["clock: it jumped", "it jumped"]
    holds = [setback(TABLE, KEY, "clock", why, None, NOW_MS) for why in whys]

    assert [hold.why for hold in holds if hold is not None] == ["clock: it jumped"] * 2


BLAMED = {
    "ambiguous_fields",
    "corrupt_file",
    "crashed",
    "deadline",
    "encrypted",
    "equality_deletes",
    "format_{name}",
    "format_v{metadata.format_version}",
    "killed",
    "location",
    "mismatch",
    "missing_file",
    "nothing_to_do",
    "out_of_memory",
    "refused",
    "unexpected",
}
"""Ends that count against a partition; for the catalog's refusal of a request nobody else can be found."""
_ENDS = (
    r'(?:_Refused|Unbound|Unsupported)\(\s*f?"(\S+?)"',
    r'OutcomeKind\.FAILED,\s*"(\w+)"',
    r'_cancel\(operation, "(\w+)"',
    r'(?:return|else) f?"(\w+): ',
    r'reason, why = "(\w+)"',
)
"""How the code words the end of a compaction."""


def test_every_end_of_a_compaction_is_somebodys_fault() -> None:
    """A new word for an end must be weighed: who is to blame for it?"""
    root = Path(isotherm.core.__path__[0]).parent
    files = [root / "service" / name for name in ("compactions.py", "holds.py", "rounds.py")]
    files += [root / "iceberg" / "maintainer.py", *(root / "iceberg" / "compaction").glob("*.py")]
    source = "\n".join(file.read_text() for file in files)
    ends = {word for pattern in _ENDS for word in re.findall(pattern, source)} | set(FailureKind)

    assert {"hot", "clock", "catalog", "storage", "policy", "stopped", "crashed", "halted"} <= ends
    assert ends - EXCUSED - OUTAGES == BLAMED
    assert not EXCUSED & OUTAGES
