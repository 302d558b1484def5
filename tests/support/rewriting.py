"""What the tests of executor and committer share: a job from bind to outcome, and Spark as the judge."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyiceberg.table import Table

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, may_go_at_once, own_folders
from isotherm.core.model.jobs import (
    CompactionJob,
    Outcome,
    OutcomeKind,
    Rewrite,
    Swap,
    Take,
    job_on_manifests,
)
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.binding import bind
from isotherm.iceberg.compaction.committer import commit_compactions
from isotherm.iceberg.compaction.names import leftovers
from isotherm.iceberg.compaction.one_commit import MayCommit
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.manifests.live import live_files
from isotherm.iceberg.remover import deleted, sweep
from isotherm.iceberg.stopping import never
from isotherm.parquet.table_description import described
from isotherm.runtime.clock import monotonic_s
from isotherm.service.ports import Bound, Sweep, Swept

NOW_MS = 1_700_000_000_000
"""Long ago: a commit never goes back behind its parent's time, so this shows that it need not be right."""
TARGET_BYTES = 128 * 1024 * 1024
COLUMNS = "id BIGINT, name STRING, amount DECIMAL(9,2), at TIMESTAMP, flag BOOLEAN"
SOME = (
    "SELECT id, concat('n', id % 7) AS name, CAST(id % 4 AS DECIMAL(9,2)) / 4 AS amount, "
    "timestamp_seconds(1700000000 + id * 300) AS at, id % 2 = 0 AS flag FROM range({}, {}, 1, 1)"
)
"""Rows from a number on up to another, for those columns."""

_numbers = itertools.count(1)


def bound(table: Table, partition: PartitionKey, **changes: Any) -> CompactionJob:
    """A job for a partition of the table as it is now."""
    job = try_to_bind(table, partition, **changes)
    assert isinstance(job, CompactionJob), job
    return job


def try_to_bind(table: Table, partition: PartitionKey, **changes: Any) -> CompactionJob | Refusal:
    name = ".".join(table.name())
    head = table.metadata.current_snapshot()
    assert head is not None
    target = changes.get("target_size_bytes", TARGET_BYTES)
    arguments = {
        "take": Take(3 * target // 4, with_deletes=True),
        "job_id": f"job{next(_numbers)}",
        "table": TableId(str(table.metadata.table_uuid), name),
        "partition_label": str(partition),
        "target_size_bytes": TARGET_BYTES,
        "policy_hash": "policy",
        "why": "a test",
    }
    found = bind(table.metadata, table.io, head, partition, **{**arguments, **changes})
    return found.job if isinstance(found, Bound) else found


def job_on(table: Table) -> CompactionJob:
    """A job on the manifests of the table as it is now."""
    head = table.metadata.current_snapshot()
    assert head is not None
    named = TableId(str(table.metadata.table_uuid), ".".join(table.name()))
    return job_on_manifests(
        f"manifests{next(_numbers)}", named, head.snapshot_id, head.sequence_number or 0, "policy", "a test"
    )


def rewritten(table: Table, job: CompactionJob) -> Rewrite:
    """What the executor makes of a job, in this process."""
    result = attempt(job, described(table.metadata), table.catalog.properties)
    assert isinstance(result, Rewrite), result
    return result


def always(_: Table) -> None:
    """May commit."""


def commit(
    catalog: Any,
    job: CompactionJob,
    rewrite: Rewrite,
    may_commit: Any = always,
    now_ms: int = NOW_MS,
    clock_s: Callable[[], float] = monotonic_s,
) -> Outcome:
    (outcome,) = commit_compactions(
        catalog, [Swap(job, rewrite)], of_each(may_commit), now_ms, lambda _: None, clock_s
    )
    return outcome


def commit_together(
    catalog: Any, swaps: Sequence[Swap], may_commit: MayCommit | None = None, now_ms: int = NOW_MS
) -> list[Outcome]:
    return commit_compactions(catalog, swaps, may_commit or of_each(always), now_ms, pause=lambda _: None)


def of_each(may_commit: Callable[[Table], Refusal | None]) -> MayCommit:
    """The same answer for each job."""

    def answer(table: Table, jobs: Sequence[CompactionJob]) -> dict[str, Refusal]:
        refusal = may_commit(table)
        return {} if refusal is None else {job.job_id: refusal for job in jobs}

    return answer


def compacted(catalog: Any, name: str, partition: PartitionKey, **changes: Any) -> Outcome:
    """Bind, rewrite, commit."""
    table = catalog.load_table(name)
    job = bound(table, partition, **changes)
    return commit(catalog, job, rewritten(table, job))


def partitions(table: Table) -> list[PartitionKey]:
    """Every partition with live files."""
    head = table.metadata.current_snapshot()
    assert head is not None
    return sorted({entry.partition for entry in live_files(table.metadata, table.io, head)})


def compact_all(catalog: Any, name: str) -> list[Outcome]:
    """Compact whatever has something to compact, as often as it takes for every spec; all must go through."""
    outcomes = []
    for key in partitions(catalog.load_table(name)):
        for _ in range(5):
            table = catalog.load_table(name)
            job = try_to_bind(table, key)
            if isinstance(job, Refusal):
                assert job.reason is Reason.NOTHING_TO_DO, job
                break
            outcome = commit(catalog, job, rewritten(table, job))
            assert outcome.kind is OutcomeKind.DONE, outcome
            outcomes.append(outcome)
    return outcomes


def rows(spark: Any, name: str, snapshot_id: int | None = None) -> list[str]:
    """Every row as Spark reads it, as text, sorted."""
    version = f" VERSION AS OF {snapshot_id}" if snapshot_id is not None else ""
    found = spark.sql(f"SELECT * FROM lake.{name}{version}").collect()
    return sorted(str(row.asDict(recursive=True)) for row in found)


def counters(spark: Any, name: str) -> tuple[dict[str, int], dict[str, int]]:
    """The totals of the newest summary, and the same from Spark's own table of files."""
    summary = spark.sql(
        f"SELECT summary FROM lake.{name}.snapshots s JOIN lake.{name}.refs r USING (snapshot_id) WHERE r.name = 'main'"
    ).first()[0]
    said = {key: int(value) for key, value in summary.items() if key.startswith("total-")}
    found = spark.sql(
        "SELECT count_if(content = 0) AS `total-data-files`, count_if(content > 0) AS `total-delete-files`, "
        "coalesce(sum(record_count) FILTER (WHERE content = 0), 0) AS `total-records`, "
        "coalesce(sum(file_size_in_bytes), 0) AS `total-files-size`, "
        "coalesce(sum(record_count) FILTER (WHERE content = 1), 0) AS `total-position-deletes`, "
        "coalesce(sum(record_count) FILTER (WHERE content = 2), 0) AS `total-equality-deletes` "
        f"FROM lake.{name}.files"
    ).first()
    return said, found.asDict()


@contextmanager
def fresh(spark: Any, name: str, columns: str, rest: str = "") -> Iterator[str]:
    """A table of format version 2 that merges on read."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql(f"DROP TABLE IF EXISTS lake.{name}")
    spark.sql(
        f"CREATE TABLE lake.{name} ({columns}) USING iceberg {rest} TBLPROPERTIES ('format-version'='2', "
        "'write.merge.mode'='merge-on-read', 'write.delete.mode'='merge-on-read', "
        "'write.update.mode'='merge-on-read', 'write.distribution-mode'='none', "
        "'write.merge.isolation-level'='serializable')"
    )
    yield name


def swept(table: Table, job: CompactionJob, outcome: Outcome) -> Swept:
    """What becomes of a job's leftovers after their grace; all that the outcome does not need is marked."""
    paths = outcome.leftovers
    if outcome.kind is OutcomeKind.FAILED:
        paths = (*leftovers(table.io, table.metadata, job), *paths)
    seen = Seen(job.base_snapshot_id, job.base_sequence_number) if job.base_sequence_number else None
    marks = tuple(Mark(path, job.job_id, Cause.LEFTOVER, seen) for path in paths)
    return sweep(
        table,
        Sweep(job.table.uuid, marks, {}, Neighbours(own_folders(table.metadata.location, (), ()))),
        never,
    )


def cleaned(table: Table, job: CompactionJob, outcome: Outcome | None = None) -> tuple[str, ...]:
    """What the service does after a failure before any request."""
    assert outcome is None or not outcome.was_sent
    found = (*leftovers(table.io, table.metadata, job), *(outcome.leftovers if outcome else ()))
    assert all(may_go_at_once(path, job.job_id, was_sent=False) for path in found)
    assert deleted(table.io, found) == (list(found), {})
    return found
