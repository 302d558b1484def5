"""The quarantine of a table in its store: what lies there, and how a file gets out again. Decides nothing.

How files get in is in `delete_or_move`. A file is moved with every care for the disk of this machine, where a link may lead
out of the table's location, and is never written over another one.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

from pyiceberg.io import FileIO

from isotherm.clients.listing import files_below
from isotherm.clients.moving import (
    bring_back,
    link_below,
    remove_empty_folders,
)
from isotherm.contract.paths import is_plain
from isotherm.core.deletion import Cause, name_of
from isotherm.core.orphan_findings import TOLD, Orphan, is_orphan_by_name
from isotherm.core.quarantine import folder_in, origin_of, place_for
from isotherm.iceberg.fingerprints import Numbered
from isotherm.iceberg.stopping import IsStopped, Stopped, never
from isotherm.service.ports import Sweep


def listed(io: FileIO, home: str, is_stopped: IsStopped = never) -> Iterator[Orphan]:
    """The files that lie in a table's quarantine, one after another.

    What has a name that is no UTF-8, or that programs read in two ways, nothing of ours has moved there, or could move.

    Raises:
        OSError: the store does not answer, or refuses.
        Stopped: so it was wanted.
    """
    top = folder_in(home)
    for some in files_below(io, top):
        if is_stopped():
            raise Stopped
        for file in some:
            place = top + file.name
            origin = origin_of(place, home)
            is_one = origin is not None and is_orphan_by_name(origin.removeprefix(home.rstrip("/") + "/"))
            if is_one and is_plain(place):
                yield Orphan(place, file.size_bytes, file.written_at_ms)


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
    check_links(home, place, origin)
    has_moved = bring_back(io, place, origin)
    remove_empty_folders(place, folder_in(home))
    return has_moved


def targets_of(wanted: Sweep) -> dict[str, str]:
    """Where files go that are not deleted at once, by path: all orphans, where the policy has a quarantine."""
    if not wanted.to_quarantine or wanted.home is None:
        return {}
    orphans = (mark for mark in wanted.marks if mark.cause is Cause.ORPHAN)
    found = {mark.path: place_for(mark.path, wanted.home, mark.job_id) for mark in orphans}
    return {path: place for path, place in found.items() if place is not None}


def check_links(home: str, *locations: str) -> None:
    """Raises OSError: a link on the way would lead out of the table's location."""
    for location in locations:
        if (link := link_below(location, home)) is not None:
            raise OSError(f"{link} is a link: what it leads to may be another table's")
