"""What lies in an older partition spec is due once it and all into which its rows go are cold (`compact.output_spec`)."""

from dataclasses import replace

import pytest

from isotherm.contract.events import Intent
from isotherm.contract.identity import UNPARTITIONED, partition_key
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.holds import Quarantine
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import PartitionField
from isotherm.core.planner.backlog import done
from isotherm.core.planner.older_spec_moves import WHOLE_BYTES, output_hot
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Flight
from isotherm.core.policy.policy import Cold, Compact, Policy, Work
from support.builders import DAY, HOUR, MIB, MINUTE, NOW, TABLE, facts, partition, table_state, view

TODAY = NOW // DAY
HOURS = PartitionField(1000, "at_hour", "hour", "timestamptz", is_current=False, source_id=2)
REGIONS = PartitionField(1002, "region", "identity", "string", is_current=False, source_id=3)
DAYS = PartitionField(1001, "at_day", "day", "timestamptz", source_id=2)
POLICY = Policy(cold=Cold(after=1), compact=Compact(output_spec="current"))
FACTS = facts(fields=(HOURS, DAYS, REGIONS), default_spec_id=1)
ONE = partition(1, 300 * MIB)


def hour(days_ago, number=0):
    return partition_key({1000: (TODAY - days_ago) * 24 + number})


def day(days_ago):
    return partition_key({1001: TODAY - days_ago})


def judged(key, state=ONE, *, policy=POLICY, outputs=(), boundary_ms=NOW, known=FACTS, **more):
    """The verdict on one partition."""
    more = {"state": table_state(boundary_ms=boundary_ms), **more}
    (found,) = plan(view({key: state}, facts=known, outputs=dict(outputs), **more), policy, NOW).of_partitions
    return found


def test_it_is_due_however_few_its_files_are():
    found = judged(hour(5))

    assert (Verdict.DUE, 1.0) == (found.verdict, found.score)
    assert found.why == (
        "cold and due: it lies in an older partition spec, and goes into at_day=2023-11-09; "
        "at most 1 file, 300 MiB to rewrite"
    )
    assert found.take is not None
    assert (1, WHOLE_BYTES, None) == (found.take.output_spec_id, found.take.below_bytes, found.take.before_ms)
    assert 300 * MIB == found.bytes


def test_what_lies_in_the_current_one_is_never_due_for_it():
    assert Verdict.CLEAN is judged(day(5)).verdict


@pytest.mark.parametrize(
    "policy", [Policy(cold=Cold(after=1)), Policy(cold=Cold(after=1), compact=Compact(output_spec="own"))]
)
def test_by_default_it_stays(policy):
    assert (Verdict.CLEAN, "cold and clean: 0 of 6 files below 96.0 MiB") == (
        judged(hour(5), policy=policy).verdict,
        judged(hour(5), policy=policy).why,
    )


def test_a_simulation_moves_nothing():
    found = view({hour(5): ONE}, facts=FACTS, state=table_state(boundary_ms=NOW))

    assert Verdict.CLEAN is plan(found, POLICY, NOW).of_partitions[0].verdict


def test_a_day_that_is_not_over_keeps_its_hours():
    """They are cold by themselves. The verdict is made again when the day is over."""
    found = judged(hour(0, 0))

    assert Verdict.HOT is found.verdict
    assert "; it stays in an older partition spec: its rows go into at_day=2023-11-14, hot: " in found.why
    assert (TODAY + 2) * DAY == found.wake.boundary_ms


def test_a_day_to_which_somebody_writes_keeps_its_hours():
    """By the rules of any partition."""
    written = replace(ONE, last_write_at_ms=NOW - 5 * MINUTE)
    found = judged(hour(5), outputs={day(5): written})

    assert Verdict.HOT is found.verdict
    assert "at_day=2023-11-09, hot: quiet for 5m of 15m" in found.why
    assert NOW + 10 * MINUTE == found.wake.at_ms
    assert Verdict.DUE is judged(hour(5), outputs={day(5): ONE}).verdict


def test_an_intent_on_the_day_keeps_its_hours():
    intent = Intent(
        table_uuid=TABLE.uuid,
        table=TABLE.name,
        intent_id="i",
        writer="w",
        state="open",
        at_ms=NOW,
        expires_at_ms=NOW + HOUR,
        partitions=(day(5),),
    )

    assert "hot: writer w means to write this partition" in judged(hour(5), intents=[intent]).why
    assert Verdict.DUE is judged(hour(6), intents=[intent]).verdict


def test_what_is_due_in_its_own_spec_does_not_wait_for_that():
    found = judged(hour(0, 0), partition(30))

    assert Verdict.DUE is found.verdict
    assert found.take is not None
    assert found.take.output_spec_id is None
    assert "it stays in an older partition spec: its rows go into at_day=2023-11-14" in found.why


def test_a_job_of_the_day_keeps_its_hours_and_they_keep_the_day():
    def flight(key):
        return Flight("job", Action.COMPACT, key, 1, NOW)

    waits = judged(hour(5), flights=(flight(day(5)),))
    assert (Verdict.HOT, True) == (
        waits.verdict,
        "at_day=2023-11-09, hot: a job of it is running" in waits.why,
    )
    assert Verdict.DUE is judged(hour(5), flights=(flight(day(6)),)).verdict
    assert Verdict.RUNNING is judged(day(5), partition(30), flights=(flight(hour(5)),)).verdict
    assert Verdict.DUE is judged(day(5), partition(30), flights=(flight(hour(6)),)).verdict


def test_why_a_spec_is_not_written_is_said():
    found = judged(hour(5), known=replace(FACTS, not_moved="the current one has 2 fields"))

    assert Verdict.CLEAN is found.verdict
    assert found.why.endswith("; it stays in an older partition spec: the current one has 2 fields")


def test_too_many_partitions_are_said():
    years = PartitionField(1000, "at_year", "year", "timestamptz", is_current=False, source_id=2)
    hours = PartitionField(1001, "at_hour", "hour", "timestamptz", source_id=2)
    found = judged(partition_key({1000: 50}), known=facts(fields=(years, hours), default_spec_id=1))

    assert found.why.endswith("its rows go into more than 1000 partitions of the current one")


@pytest.mark.parametrize("key", [UNPARTITIONED, partition_key({1002: "eu"})])
def test_where_a_key_tells_no_time_the_rows_before_one_are_due(key):
    """Before the end of the youngest day that is cold though nobody knows it."""
    known = replace(FACTS, has_undivided=True)
    found = judged(key, known=known)

    assert Verdict.DUE is found.verdict
    assert found.take is not None
    assert (TODAY - 1) * DAY == found.take.before_ms
    nowhere = judged(key, known=known, boundary_ms=None)
    assert (Verdict.HOT, True) == (
        nowhere.verdict,
        "nothing says yet how far the stream has come" in nowhere.why,
    )


def test_budgets_make_parts_of_it():
    """A part at a time, until nothing is left, and not in vain."""
    large = partition(100, 300 * MIB)
    policy = POLICY.model_copy(update={"work": Work(bytes_per_hour="1GiB")})
    found = judged(hour(5), large, policy=policy)

    assert Verdict.DUE is found.verdict
    assert found.take is not None
    assert (1024 * MIB, True) == (found.take.at_most_bytes, 0 < found.bytes <= 1024 * MIB)
    small = POLICY.model_copy(update={"work": Work(bytes_per_hour="100MiB")})
    waits = judged(hour(5), large, policy=small)
    assert (Verdict.WAITING, True) == (
        waits.verdict,
        "are more than work.bytes_per_hour ever allows" in waits.why,
    )


def test_its_deletes_go_with_it():
    deletes = {
        FileKind.EQUALITY_DELETES: FileStats(30, 3000, MIB),
        FileKind.POSITION_DELETES: FileStats(300, 9, MIB),
    }
    found = judged(hour(5), replace(partition(30), deletes=deletes))

    assert Verdict.DUE is found.verdict
    assert found.take is not None
    assert (True, False, False) == (
        found.take.with_deletes,
        found.take.converts_equality,
        found.take.merges_deletes,
    )
    assert "it lies in an older partition spec" in found.why


def test_deletes_alone_are_not_moved():
    left = replace(ONE, data={}, deletes={FileKind.POSITION_DELETES: FileStats(1, 1, 1)})

    assert "older partition spec" not in judged(hour(5), left).why


def test_once_it_is_done_nothing_is_due():
    before = view(
        {hour(5): ONE, hour(6): partition(30)}, facts=FACTS, state=table_state(boundary_ms=NOW), outputs={}
    )
    work, left = done(before, POLICY, NOW)

    assert (2, 1, {}) == (work.jobs, work.rounds, dict(left.partitions))


def test_a_part_that_was_done_is_no_rest_for_the_others():
    """Nobody wrote to it since."""
    assert Verdict.DUE is judged(hour(5), replace(ONE, compacted_at_ms=NOW - MINUTE)).verdict


def test_a_partition_without_a_time_must_be_there():
    """Rows without a value may come at any time, so that nobody wrote one yet says nothing."""
    around = view({}, facts=FACTS, state=table_state(boundary_ms=NOW)).around
    hot = output_hot(UNPARTITIONED, None, around, POLICY.cold, NOW, MIB)

    assert hot is not None
    assert "it is not there yet, and has no time" in hot.why
    assert output_hot(UNPARTITIONED, ONE, around, POLICY.cold, NOW, MIB) is None


def test_a_day_into_which_rows_are_moved_is_compacted_after_that():
    """A job of its own would find files that came."""
    both = {hour(5): ONE, day(5): partition(30), day(6): partition(30)}
    found = plan(view(both, facts=FACTS, state=table_state(boundary_ms=NOW), outputs=both), POLICY, NOW)

    verdicts = {one.partition: one for one in found.of_partitions}
    assert [Verdict.DUE, Verdict.WAITING, Verdict.DUE] == [verdicts[key].verdict for key in both]
    assert verdicts[day(5)].why.endswith(
        "; it waits until the rows of at_hour=2023-11-09-00 are moved into it"
    )
    assert NOW + MINUTE == verdicts[day(5)].wake.at_ms
    assert {hour(5), day(6)} == {one.decision.partition for one in found.requests}


def test_a_move_of_one_file_has_its_turn():
    """It saves no file that readers of its own hour open, but those of all other hours. Of nothing, waiting makes no more."""
    both = {hour(5): ONE, day(9): partition(30)}
    since = {hour(5): NOW - 30 * DAY}
    looked = view(both, facts=FACTS, state=table_state(boundary_ms=NOW), outputs={}, due_since_ms=since)

    assert [hour(5), day(9)] == [one.decision.partition for one in plan(looked, POLICY, NOW).requests]


def test_after_three_failures_it_is_compacted_in_its_own_spec():
    """Perhaps only the moves fail. The hold is over, and their files are small."""
    small = partition(30, MIB)
    failed = Quarantine(NOW - 1, 3, "crashed: what moved it has crashed")

    found = judged(hour(5), small, quarantined={hour(5): failed})
    before = judged(hour(5), small, quarantined={hour(5): replace(failed, failures=2)})

    assert (1, None) == (before.take.output_spec_id, found.take.output_spec_id)
    assert Verdict.DUE is before.verdict is found.verdict
    assert "it stays in an older partition spec: its jobs failed 3 times in a row (crashed: " in found.why
