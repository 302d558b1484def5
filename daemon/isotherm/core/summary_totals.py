"""A table's totals, and how far the counters in the summaries of its snapshots are away from them.

The comparison costs nothing, so each change gets it. Writers that count wrongly leave a difference; a difference that
changes is an alarm, because our own state may be wrong then.
"""

from collections.abc import Iterable, Mapping

from isotherm.core.model.changes import PartitionDelta
from isotherm.core.model.files import DELETE_KINDS, NO_FILES, FileKind, FileStats, total


def totals_after(
    before: Mapping[FileKind, FileStats], deltas: Iterable[PartitionDelta]
) -> dict[FileKind, FileStats]:
    """A table's totals after a change of its partitions."""
    totals = {kind: before.get(kind, NO_FILES) for kind in FileKind}
    deltas = tuple(deltas)
    totals[FileKind.DATA] += total(stats for delta in deltas for stats in delta.data.values())
    for delta in deltas:
        for kind, stats in delta.deletes.items():
            totals[kind] += stats
    return totals


def gap_to(summary: Mapping[str, int], totals: Mapping[FileKind, FileStats]) -> dict[str, int]:
    """The summary's counters less ours, for those that it has (spec, "Snapshot Summary")."""
    deletes = total(totals[kind] for kind in DELETE_KINDS)
    ours = {
        "total-data-files": totals[FileKind.DATA].files,
        "total-records": totals[FileKind.DATA].rows,
        "total-delete-files": deletes.files,
        "total-position-deletes": totals[FileKind.POSITION_DELETES].rows
        + totals[FileKind.DELETION_VECTORS].rows,
        "total-equality-deletes": totals[FileKind.EQUALITY_DELETES].rows,
        "total-files-size": totals[FileKind.DATA].bytes + deletes.bytes,
    }
    if totals[FileKind.DELETION_VECTORS]:
        # Of a vector, Iceberg's Java counts the bytes of its blob, as we do; others those of its whole Puffin file.
        del ours["total-files-size"]
    return {name: summary[name] - count for name, count in ours.items() if name in summary}


def moved_counters(before: Mapping[str, int], gap: Mapping[str, int], duplicates: int) -> frozenset[str]:
    """The counters whose difference to ours changed, unless duplicates that left say why.

    A file that manifests name twice leaves twice, as it came; Java takes it away from its totals once.
    """
    moves = {name: value - before.get(name, 0) for name, value in gap.items() if value != before.get(name, 0)}
    files = moves.get("total-data-files", 0) + moves.get("total-delete-files", 0)
    if duplicates and files == duplicates and min(moves.values()) > 0:
        return frozenset()
    return frozenset(moves)


def gap_text(gap: Mapping[str, int]) -> str:
    """The same in words."""
    return ", ".join(f"{name} {value:+d}" for name, value in sorted(gap.items()) if value)
