"""The daemon at work on one table, in this process: it tells how the files of each job were chosen."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table.update import AddSnapshotUpdate

from isotherm.core.model.jobs import Take
from support.lab import Beside, Lab


class Maintainer(Beside):
    """The real one, which tells how the files of each job were chosen."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.takes: dict[str, Take] = {}

    def start_binding(
        self, loaded: Any, partition: Any, job_id: str, label: str, take: Take, *more: Any, **named: Any
    ) -> None:
        self.takes[job_id] = take
        super().start_binding(loaded, partition, job_id, label, take, *more, **named)


@dataclass
class WorkLab(Lab):
    """A lab whose daemon tells more."""

    made: list[Maintainer] = field(default_factory=list)

    def maintainer(self, executor: Any) -> Maintainer:
        self.made.append(Maintainer(self.catalog, executor, self.now_ms, self))
        return self.made[-1]

    def take_of(self, job_id: str) -> Take:
        return next(one.takes[job_id] for one in self.made if job_id in one.takes)

    def is_minor(self, job_id: str) -> bool:
        """Whether a job merges old files beside writers that only append."""
        takes = [one.takes[job_id] for one in self.made if job_id in one.takes]
        return any(take.through_number is not None for take in takes)


def leaving(table: Any, updates: Iterable[Any]) -> list[str]:
    """The data files that a commit takes out of a table, by path, in a settled order."""
    found = []
    for update in updates:
        if not isinstance(update, AddSnapshotUpdate):
            continue
        for manifest in update.snapshot.manifests(table.io):
            if manifest.content != ManifestContent.DATA or not manifest.deleted_files_count:
                continue
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                file = entry.data_file
                if (
                    entry.status == ManifestEntryStatus.DELETED
                    and entry.snapshot_id == update.snapshot.snapshot_id
                ):
                    found.append((entry.sequence_number or 0, file.file_size_in_bytes, file.file_path))
    return [path for *_, path in sorted(found)]


def kind_of(take: Take) -> str:
    """What a compaction was about, in a word."""
    beside = " beside writers" if take.through_number is not None else ""
    if take.converts_equality:
        return "compact, equality deletes converted"
    if take.merges_deletes:
        return "compact, deletes merged"
    return ("compact, deletes applied" if take.with_deletes else "compact, small files") + beside
