"""The `tests:` of a policy file, judged by the planner itself: what passes says what the daemon will do.

What a case does not say is ordinary: nobody is about to write, nothing runs, the stream has come as far as the clock,
and many commits went by since the partition was last written.
"""

from dataclasses import dataclass

from isotherm.contract.events import Intent
from isotherm.contract.identity import TableId
from isotherm.core.appends import Arrival
from isotherm.core.lateness import UNTAUGHT, files_come_within
from isotherm.core.model.decisions import Decision
from isotherm.core.model.files import FileKind, FileStats, size_bucket
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import PartitionField, Snapshot, TableFacts
from isotherm.core.partition_state import PartitionState
from isotherm.core.partitions import with_epochs
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Surroundings, View
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.policy_test_case import FIELD_ID, Case
from isotherm.core.state import TableState

ROWS_PER_FILE = 1000

MANIFEST_BYTES = 8 * 1024

ORDINARY_COMMITS = 1_000_000
"""Foreign commits of the table: more than any `commits_since` that a rule could wait for."""


_SOURCES = {"hour": "timestamptz", "day": "timestamptz", "month": "timestamptz", "year": "timestamptz"}


def judge_case(case: Case, policy: Policy | None) -> "Judged":
    """What the planner decides under a policy, which is None where no file names the table."""
    decision = decision_on(case, policy)
    is_expected = decision.verdict is case.expect and case.why in decision.why
    return Judged(case.name, is_expected, str(case.expect), case.why, str(decision.verdict), decision.why)


def decision_on(case: Case, policy: Policy | None) -> Decision:
    """The planner's decision on what a case is about."""
    key = case.key() if case.action is Action.COMPACT else None
    planned = plan(view_of(case, policy), policy, case.at)
    return next(one for one in planned.decisions if one.action is case.action and one.partition == key)


def view_of(case: Case, policy: Policy | None) -> View:
    """The facts as the planner sees them."""
    table = TableId("00000000-0000-0000-0000-000000000000", case.table or "test")
    kind = "string" if isinstance(case.partition, str) else "int"
    field = PartitionField(FIELD_ID, case.field, case.spec, _SOURCES.get(case.spec, kind))
    epochs = {} if policy is None else policy.cold.epochs
    fields = () if case.spec == "none" else with_epochs((field,), epochs)
    snapshots = _snapshots(case)
    boundary_ms = case.at if case.boundary is None else case.boundary
    state = TableState(
        table=table,
        head=snapshots[-1].snapshot_id,
        boundary_ms=boundary_ms,
        foreign_commits=ORDINARY_COMMITS,
        partitions=case.partitions,
        lateness=UNTAUGHT if case.late is None else files_come_within(case.late, case.at),
    )
    intent = Intent(
        table_uuid=table.uuid,
        table=table.name,
        intent_id="test",
        writer="test",
        state="open",
        # No event is older than 1970, but a test may ask about any time.
        at_ms=max(case.at, 0),
        expires_at_ms=max(case.at, 0) + 60_000,
        partitions=None,
    )
    return View(
        around=Surroundings(state, fields, (intent,) if case.intent else ()),
        facts=TableFacts(
            location="",
            format_version=3 if case.deletion_vectors else 2,
            fields=fields,
            properties=case.properties,
            snapshots=len(snapshots),
            manifests=case.manifests,
            metadata_bytes=MANIFEST_BYTES * case.manifests,
            metadata_file_bytes=case.metadata_size,
            metadata_versions=case.metadata_versions,
            confirmed_at_ms=case.at,
        ),
        partitions={case.key(): _partition(case)},
        snapshots=snapshots,
        last_done_ms={} if case.last_done is None else {case.action: case.at - case.last_done},
        announced_sequence_number=len(snapshots),
    )


def _partition(case: Case) -> PartitionState:
    count = sum(one.count for one in case.files)
    rows = ROWS_PER_FILE * count if case.rows is None else case.rows
    data: dict[int, FileStats] = {}
    placed = 0
    for one in case.files:
        placed += one.count
        # Rows are spread evenly, and none is lost to rounding.
        share = rows * placed // count - rows * (placed - one.count) // count if count else 0
        bucket = size_bucket(one.size)
        data[bucket] = data.get(bucket, FileStats()) + FileStats(one.count, share, one.count * one.size)
    deletes = {
        FileKind.POSITION_DELETES: case.deletes,
        FileKind.EQUALITY_DELETES: case.equality_deletes,
        FileKind.DELETION_VECTORS: case.deletion_vectors,
    }
    written_at_ms = None if case.last_write is None else case.at - case.last_write
    return PartitionState(
        data={bucket: stats for bucket, stats in data.items() if stats},
        deletes={kind: stats for kind, stats in deletes.items() if stats},
        first_write_at_ms=written_at_ms,
        last_write_at_ms=written_at_ms,
        last_write_number=ORDINARY_COMMITS - min(case.commits_since, ORDINARY_COMMITS),
        compacted_at_ms=None if case.last_done is None else case.at - case.last_done,
        arrivals=(Arrival.before_all(case.at),) if case.appended else (),
    )


def _snapshots(case: Case) -> tuple[Snapshot, ...]:
    if case.snapshots is None:
        return (Snapshot(1, 1, case.at),)
    apart_ms = case.snapshots.oldest / max(case.snapshots.count - 1, 1)
    return tuple(
        Snapshot(number + 1, number + 1, case.at - case.snapshots.oldest + round(number * apart_ms))
        for number in range(case.snapshots.count)
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a case."""

    name: str
    ok: bool
    expected: str
    expected_why: str
    verdict: str
    why: str
