"""The quarantine of a table in its store: what lies there, and how files get in and out. Decides nothing.

What `remover` has judged is deleted here too, or moved (`Taking.take`).

A file is moved with every care for the disk of this machine, where a link may lead out of the table's location, and is
never written over another one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from pyiceberg.io import FileIO

from isotherm.clients.listing import files_below
from isotherm.clients.moving import (
    OtherFileError,
    Version,
    bring_back,
    link_below,
    move,
    remove_empty_folders,
)
from isotherm.clients.storage import delete_once
from isotherm.core.deletion import FOUND, Cause, Finding, Verdict, held_by, name_of
from isotherm.core.orphan_findings import TOLD, Orphan, is_orphan_by_name
from isotherm.core.quarantine import folder_in, is_too_long, origin_of, place_for
from isotherm.iceberg.fingerprints import Numbered
from isotherm.iceberg.stopping import IsStopped, Stopped, never
from isotherm.service.ports import Sweep


def listed(io: FileIO, home: str, is_stopped: IsStopped = never) -> Iterator[Orphan]:
    """The files that lie in a table's quarantine, one after another.

    Raises:
        OSError: the store does not answer, or refuses.
        Stopped: so it was wanted.
    """
    top = folder_in(home)
    for some in files_below(io, top):
        if is_stopped():
            raise Stopped
        for file in some:
            origin = origin_of(top + file.name, home)
            if origin is not None and is_orphan_by_name(origin.removeprefix(home.rstrip("/") + "/")):
                yield Orphan(top + file.name, file.size_bytes, file.written_at_ms)


@dataclass(slots=True)
class Inside:
    """What a listing shows of a quarantine, of which no more is held than `TOLD` files: else those that nobody knows."""

    known: Collection[str]
    """Places of which the ledger knows."""
    names: Numbered = field(default_factory=Numbered)
    """The names of all, and of those that the ledger knows."""
    files: list[Orphan] | None = field(default_factory=list)
    """None where it cannot be listed."""
    is_whole: bool = True
    """Whether these are all."""
    why_not: str = ""
    """Why it cannot be listed."""
    is_listed: bool = False
    """Whether it was listed to its end."""

    def look(self, io: FileIO, home: str, is_stopped: IsStopped, most: int = TOLD) -> None:
        """List it. A store that does not let us has told nothing. Raises Stopped."""
        self.names.add_all(map(name_of, self.known))
        files = list[Orphan]()
        try:
            for file in listed(io, home, is_stopped):
                self.names.add_all([name_of(file.path)])
                if len(files) == most and self.is_whole:
                    self.is_whole, files = False, [one for one in files if one.path not in self.known]
                if self.is_whole or (len(files) < most and file.path not in self.known):
                    files.append(file)
        except OSError as err:
            self.files, self.is_whole, self.why_not = None, False, str(err)
            return
        self.files, self.is_listed = files, True

    def add_needed(
        self, io: FileIO, home: str, names: Collection[str], is_stopped: IsStopped, most: int = TOLD
    ) -> None:
        """Where not all are held, list it once more for those that have one of these names."""
        if self.files is None or self.is_whole or not names:
            return
        held = {one.path for one in self.files}
        needed = (one for one in listed(io, home, is_stopped) if name_of(one.path) in names)
        self.files += [one for one in islice(needed, most) if one.path not in held]


def put_back(io: FileIO, home: str, place: str) -> bool:
    """Move a file from the quarantine to where it was; whether it has moved. If it is there already, it stays for its time.

    Raises:
        OtherFileError: a file of other content lies there.
        OSError: the store refuses, or does not answer; FileNotFoundError: it is in neither place.
    """
    origin = origin_of(place, home)
    if origin is None:
        raise OSError(f"nothing was moved from this table's folders to {place}")
    _check_links(home, place, origin)
    has_moved = bring_back(io, place, origin)
    remove_empty_folders(place, folder_in(home))
    return has_moved


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
            OtherFileError: it is kept, because another file lies where it should go.
            OSError: the store refuses, or does not answer.
        """
        home, target = self.wanted.home, self.targets.get(path)
        if home is not None and target is not None:
            _check_links(home, path, target)
            try:
                size_bytes = move(
                    io, path, target, lambda: not is_late(), whole=self._copied, step=self._step
                )
            except OtherFileError:
                why = "an older file of this name is in its place in quarantine; the next search gives it another one"
                self.kept[path] = Verdict(Finding.KEEP, "in_the_way", why)
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


def targets_of(wanted: Sweep) -> dict[str, str]:
    """Where files go that are not deleted at once, by path: all orphans, where the policy has a quarantine."""
    if not wanted.to_quarantine or wanted.home is None:
        return {}
    orphans = (mark for mark in wanted.marks if mark.cause is Cause.ORPHAN)
    found = {mark.path: place_for(mark.path, wanted.home, mark.job_id) for mark in orphans}
    return {path: place for path, place in found.items() if place is not None}


def _check_links(home: str, *locations: str) -> None:
    for location in locations:
        if (link := link_below(location, home)) is not None:
            raise OSError(f"{link} is a link: what it leads to may be another table's")
