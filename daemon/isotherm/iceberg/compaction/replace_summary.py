"""What the summary of a snapshot says that swaps files: counters, totals, and whose work it is."""

from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.table.snapshots import Operation, Summary, UpdateMetrics

from isotherm.contract.summary import COMMITTED_AT, JOB_ID, JOB_IDS, NUMBER, POLICY_HASH, WINDOW_ID
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import Rewrite, Swap
from isotherm.iceberg.manifests.live import LiveEntry

_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)
"""Counters of a summary: the total, what adds to it, what takes from it."""


def no_numbers(before: Mapping[str, str]) -> tuple[str, ...]:
    """Totals that the parent's summary has and that are no numbers: Iceberg's Java leaves them out as well."""
    return tuple(total for total, *_ in _TOTALS if total in before and not NUMBER.fullmatch(before[total]))


def summary(
    swaps: Sequence[Swap],
    leaving: Iterable[LiveEntry],
    before: Mapping[str, str],
    now_ms: int,
    of_manifests: Mapping[str, str],
) -> Summary:
    """The counters that Spark's own rewrite writes, and whose work it is.

    `of_manifests` has those of a rewrite of manifests, or none. Totals are the parent's, plus and minus; one that the parent does not tell cannot be told.
    """
    counts, vectors = UpdateMetrics(), 0
    for swap in swaps:
        _add(swap.rewrite, counts)
    for entry in leaving:
        counts.removed_file_size += entry.size_bytes
        if entry.kind is FileKind.DATA:
            counts.removed_data_files += 1
            counts.deleted_records += entry.rows
        elif entry.kind is FileKind.EQUALITY_DELETES:
            counts.removed_delete_files += 1
            counts.removed_eq_delete_files += 1
            counts.removed_eq_deletes += entry.rows
        else:
            counts.removed_delete_files += 1
            vectors += entry.kind is FileKind.DELETION_VECTORS
            counts.removed_pos_delete_files += entry.kind is FileKind.POSITION_DELETES
            counts.removed_pos_deletes += entry.rows
    said = counts.to_dict()
    if vectors:
        said["removed-dvs"] = str(vectors)
    totals = {}
    for total, plus, minus in _TOTALS:
        if NUMBER.fullmatch(before.get(total, "")):
            after = int(before[total]) + int(said.get(plus, 0)) - int(said.get(minus, 0))
            if after >= 0:
                totals[total] = str(after)
    touched = {swap.job.partition for swap in swaps}
    touched |= {file.partition or swap.job.partition for swap in swaps for file in swap.rewrite.files}
    partitions = {"changed-partition-count": str(0 if of_manifests else len(touched))}
    ours = _whose(swaps, now_ms)
    return Summary(operation=Operation.REPLACE, **said, **partitions, **of_manifests, **totals, **ours)


def _whose(swaps: Sequence[Swap], now_ms: int) -> dict[str, str]:
    """Whose work it is, and in which window."""
    first, ids = swaps[0].job, [swap.job.job_id for swap in swaps]
    ours = {JOB_ID: first.job_id, POLICY_HASH: first.policy_hash, COMMITTED_AT: str(now_ms)}
    if len(ids) > 1:
        ours[JOB_IDS] = ",".join(ids)
    if windows := sorted({swap.job.window_id for swap in swaps} - {""}):
        ours[WINDOW_ID] = ",".join(windows)
    return ours


def _add(rewrite: Rewrite, counts: UpdateMetrics) -> None:
    """Count what was written."""
    for file in rewrite.files:
        counts.added_data_files += 1
        counts.added_records += file.rows
        counts.added_file_size += file.size_bytes
    for file in rewrite.merged.files:
        counts.added_delete_files += 1
        counts.added_pos_delete_files += 1
        counts.added_pos_deletes += file.rows
        counts.added_file_size += file.size_bytes
