"""The manifests of a table's head, and every live file with all that its entry says."""

from typing import Any

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table

from isotherm.clients.manifests.reading import Manifest, entries, read_manifest_list


def manifests(table: Table) -> list[Any]:
    head = table.refresh().metadata.current_snapshot()
    assert head is not None
    return list(read_manifest_list(table.io, head.manifest_list))


def live(table: Table) -> dict[str, tuple[Any, ...]]:
    """Every live file with all that an entry says of it, but whether it was added by this snapshot."""
    found = {}
    for manifest in manifests(table):
        for entry in entries(Manifest.read(table.io, manifest.manifest_path), manifest):
            if entry.status != ManifestEntryStatus.DELETED:
                assert entry.data_file.file_path not in found
                found[entry.data_file.file_path] = (
                    entry.snapshot_id,
                    entry.sequence_number,
                    entry.file_sequence_number,
                    list(entry.data_file._data),  # noqa: SLF001 (all that it says)
                )
    return found
