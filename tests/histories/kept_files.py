"""Files that must be there: of writers who are about to commit them, of queries that began before an expiry, of snapshots that
are retained.
"""

from collections.abc import Iterator
from pathlib import Path

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from isotherm.contract.paths import normalised


class KeptFiles:
    """Those of one table."""

    def __init__(self, strays_ms: int, grace_ms: int) -> None:
        self.strays_ms = strays_ms
        """For so long what no writer has committed stays."""
        self.grace_ms = grace_ms
        """For so long after its expiry what a snapshot needed stays."""
        self._strays: dict[Path, int] = {}
        """When each came."""
        self._needed: set[Path] = set()
        self._needed_at_ms = 0
        self._in_manifest: dict[str, frozenset[Path]] = {}

    def note_strays(self, folder: Path, now_ms: int) -> None:
        """Write down which files have come that nobody commits."""
        for path in (folder / "data").glob("left-behind-*"):
            self._strays.setdefault(path, now_ms)

    def learn(self, table: Table, now_ms: int) -> None:
        """Read what the retained snapshots need now. Where there is no grace, it may go at any time."""
        self._needed_at_ms = now_ms
        if self.grace_ms:
            self._needed = {path for path in self._reached(table) if path.exists()}

    def gone(self, now_ms: int) -> list[str]:
        """What is gone and had to stay until now."""
        young = [path for path, came_ms in self._strays.items() if now_ms - came_ms < self.strays_ms]
        needed = self._needed if now_ms - self._needed_at_ms < self.grace_ms else ()
        return sorted(path.name for path in (*young, *needed) if not path.exists())

    def _reached(self, table: Table) -> Iterator[Path]:
        for snapshot in table.metadata.snapshots:
            yield Path(normalised(snapshot.manifest_list))
            for manifest in snapshot.manifests(table.io):
                path = manifest.manifest_path
                yield Path(normalised(path))
                if path not in self._in_manifest:
                    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                    files = (Path(normalised(entry.data_file.file_path)) for entry in entries)
                    self._in_manifest[path] = frozenset(files)
                yield from self._in_manifest[path]


def missing_statistics(before: TableMetadata, after: TableMetadata) -> list[str]:
    """Statistics of snapshots that are retained: which are not named any more, or are not there."""
    is_there = {one.snapshot_id for one in after.snapshots}
    named = {one.statistics_path for one in (*after.statistics, *after.partition_statistics)}
    had = {
        one.statistics_path
        for one in (*before.statistics, *before.partition_statistics)
        if one.snapshot_id in is_there
    }
    return sorted({*(had - named), *(path for path in named if not Path(normalised(path)).exists())})


def missing_metadata(table: Table) -> list[str]:
    """Schemas and partition specs that a snapshot, a manifest or the table itself names, and that it has not."""
    metadata = table.metadata
    schemas = {one.schema_id for one in metadata.snapshots} | {metadata.current_schema_id}
    specs = {manifest.partition_spec_id for one in metadata.snapshots for manifest in one.manifests(table.io)}
    specs.add(metadata.default_spec_id)
    return [
        *(f"schema {one}" for one in schemas - {None, *(there.schema_id for there in metadata.schemas)}),
        *(f"spec {one}" for one in specs - {there.spec_id for there in metadata.partition_specs}),
    ]
