"""How a file goes that may: for good, or into the quarantine. What may go was decided and proved before (`remover`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyiceberg.io import FileIO

from isotherm.clients.moving import (
    OtherDiskError,
    OtherFileError,
    Version,
    move,
    remove_empty_folders,
)
from isotherm.clients.storage import delete_once
from isotherm.core.deletion import FOUND, Cause, Finding, Verdict, held_by
from isotherm.core.quarantine import folder_in, is_too_long
from isotherm.iceberg.quarantine import check_links, targets_of
from isotherm.iceberg.stopping import IsStopped, Stopped
from isotherm.service.ports import Sweep


@dataclass(slots=True)
class Taking:
    """How files go that may: for good, or into the quarantine."""

    wanted: Sweep
    is_stopped: IsStopped
    """Asked while a file goes through this machine."""
    moved: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By path: where a file lies now, and its size."""
    missing: set[str] = field(default_factory=set)
    """Files in quarantine that were there no more: somebody has put them back."""
    kept: dict[str, Verdict] = field(default_factory=dict)
    """Files that stay for now: the next search gives them another place."""
    _copied: dict[str, Version] = field(default_factory=dict)
    targets: Mapping[str, str] = field(init=False)
    """Where files go that are not deleted at once, by path."""
    _causes: Mapping[str, Cause] = field(init=False)

    def __post_init__(self) -> None:
        self.targets = targets_of(self.wanted)
        self._causes = {mark.path: mark.cause for mark in self.wanted.marks}

    def blocked(self, paths: Iterable[str]) -> dict[str, str]:
        """Of files that may go those that cannot be moved into the quarantine as they should, with why."""
        found: dict[str, str] = {}
        for path in paths:
            if self._causes[path] is not Cause.ORPHAN or not self.wanted.to_quarantine:
                continue
            if path not in self.targets:
                found[path] = "it lies in none of the folders from which files are moved into quarantine"
            elif (other := held_by(self.targets[path], self.wanted.neighbours, is_found=True)) is not None:
                found[path] = f"the quarantine lies in a folder of another table, {other}"
            elif is_too_long(self.targets[path]):
                found[path] = (
                    "its name in quarantine would be longer than its store allows: delete it by hand"
                )
                self.kept[path] = Verdict(Finding.KEEP, "too_long", found[path])
        return found

    def take(self, io: FileIO, path: str, is_late: IsStopped) -> None:
        """Delete a file, or move it into the quarantine.

        Raises:
            FileNotFoundError: it is not there.
            Stopped: it is copied, and its original must not go any more.
            OtherFileError, OtherDiskError: it is kept, because another file lies where it should go, or it cannot go there.
            OSError: the store refuses, or does not answer.
        """
        home, target = self.wanted.home, self.targets.get(path)
        if home is not None and self._causes[path] in FOUND:
            # It was found below the table's location: a folder of it may have become a link since.
            check_links(home, path, *(() if target is None else (target,)))
        if target is not None:
            try:
                size_bytes = move(
                    io, path, target, lambda: not is_late(), whole=self._copied, step=self._step
                )
            except OtherFileError:
                why = "an older file of this name is in its place in quarantine; the next search gives it another one"
                self.kept[path] = Verdict(Finding.KEEP, "in_the_way", why)
                raise
            except OtherDiskError as err:
                why = f"{err}: delete it by hand, or have `orphans.mode: apply` do it"
                self.kept[path] = Verdict(Finding.KEEP, "other_disk", why)
                raise
            if size_bytes is None:
                raise Stopped
            self.moved[path] = target, size_bytes
            return
        try:
            if self._causes[path] in FOUND:
                delete_once(io, path)
            else:
                io.delete(path)
            if home is not None and self._causes[path] is Cause.QUARANTINED:
                remove_empty_folders(path, folder_in(home))
        except FileNotFoundError:
            if self._causes[path] is Cause.QUARANTINED:
                self.missing.add(path)
            raise

    def _step(self) -> None:
        if self.is_stopped():
            raise Stopped
