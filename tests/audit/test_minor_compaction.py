"""Old files of a hot partition: what the audit lets pass, and what it does not."""

from dataclasses import replace
from typing import Any

import pytest

from isotherm.audit.evidence import ColdRule, Commit, Evidence, Judged, Said, Touch
from isotherm.audit.promises import cold_only
from isotherm.contract.events import Intent
from isotherm.contract.identity import UNPARTITIONED, PartitionKey

MINUTE = 60_000
RULE = ColdRule(
    lambda _: 0, quiet_for_ms=15 * MINUTE, silent_for_ms=1440 * MINUTE, minor_after_ms=60 * MINUTE
)
KEY = PartitionKey(UNPARTITIONED)


def stream(count: int, *, oldest_parent: int | None = None) -> list[Commit]:
    """A file a minute."""
    return [
        Commit(
            number,
            number - 1 or oldest_parent,
            number * MINUTE,
            "append",
            sequence_number=number,
            touches=(Touch(KEY, 1, 0),),
        )
        for number in range(1, count + 1)
    ]


def ours(after: int, *, newest_removed: int) -> Commit:
    return Commit(
        after + 1,
        after,
        after * MINUTE + 10,
        "replace",
        "job",
        "p",
        after + 1,
        touches=(Touch(KEY, 1, newest_removed, newest_removed),),
    )


def judged(commits: list[Commit], *, rule: ColdRule = RULE, **more: Any) -> tuple[Judged, str]:
    found = cold_only(Evidence("t", {}, tuple(commits), {"p": rule}, now_ms=10**9, **more))
    return found.verdict, " ".join((found.why, *found.evidence))


def test_old_files_beside_appends_are_no_breach() -> None:
    verdict, why = judged([*stream(120), ours(120, newest_removed=104)])

    assert verdict is Judged.PROVED
    assert "but for old files of 1 beside writers that only append" in why


def test_without_the_policy_they_are_one() -> None:
    rule = replace(RULE, minor_after_ms=None)

    assert judged([*stream(120), ours(120, newest_removed=104)], rule=rule)[0] is Judged.BROKEN


def test_a_file_that_had_only_just_come_is_one() -> None:
    verdict, why = judged([*stream(120), ours(120, newest_removed=106)])

    assert verdict is Judged.BROKEN
    assert "it removed files that snapshot 106 had only just brought" in why


@pytest.mark.parametrize(
    "other", [{"operation": "overwrite"}, {"operation": "replace"}, {"touches": (Touch(KEY, 1, 1),)}]
)
def test_so_is_a_writer_that_did_something_else_shortly_before(other: dict[str, Any]) -> None:
    commits = stream(120)
    commits[80] = replace(commits[80], **other)
    verdict, why = judged([*commits, ours(120, newest_removed=80)])

    assert verdict is Judged.BROKEN
    assert "snapshot 81, 2340010 ms before, was no append" in why


def test_so_is_too_short_a_history() -> None:
    assert judged([*stream(50), ours(50, newest_removed=20)])[0] is Judged.BROKEN


def test_what_has_expired_cannot_be_proved_any_more() -> None:
    commits = stream(50, oldest_parent=99_999)

    assert judged([*commits, ours(50, newest_removed=20)])[0] is Judged.NOT_PROVABLE


def test_an_intent_is_never_passed_over() -> None:
    intent = Intent(
        table_uuid="u",
        table="t",
        intent_id="i1",
        writer="w",
        state="open",
        at_ms=118 * MINUTE,
        expires_at_ms=130 * MINUTE,
        partitions=(KEY,),
    )
    verdict, why = judged(
        [*stream(120), ours(120, newest_removed=104)], intents=(Said(118 * MINUTE, intent),)
    )

    assert verdict is Judged.BROKEN
    assert "the intent i1 named it" in why
