"""What is known of files in quarantine of whose names a table has one: their sizes, and what lies where they were.

A stream that plays an epoch again may give a file a name of before. So the table names a file, and in quarantine lie
another one of that name, or several. Sizes tell them apart, because manifests have those of what they name. So do places,
where the table has its file of that name in another partition (`named_files`).
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from isotherm.clients.moving import size_of
from isotherm.clients.storage import REQUESTS_AT_ONCE
from isotherm.core.deletion import Cause, name_of
from isotherm.core.quarantine import origin_of
from isotherm.iceberg.by_name import ByName
from isotherm.iceberg.manifests.reachability import sizes_named
from isotherm.iceberg.named_files import NamedFiles
from isotherm.iceberg.quarantine import targets_of
from isotherm.iceberg.stopping import IsStopped, Stopped
from isotherm.iceberg.threads import Threads
from isotherm.service.ports import Sweep


@dataclass(frozen=True, slots=True)
class NeededAgain:
    """Of files in quarantine that have a name which the table needs."""

    sizes: dict[str, frozenset[int]] = field(default_factory=dict)
    """By place: what manifests say of the files that may be meant."""
    in_quarantine: dict[str, int] = field(default_factory=dict)
    """By place."""
    at_origin: dict[str, int] = field(default_factory=dict)
    """By place: what lies where it was."""
    named_at_origin: set[str] = field(default_factory=set)
    """Places of those that the table names where they were, and not where they are."""
    elsewhere: set[str] = field(default_factory=set)
    """Places of those that the table does not need where they were: its files of that name lie in other places."""


def needed_again(
    table: Table,
    wanted: Sweep,
    named: Mapping[str, Collection[str]],
    is_stopped: IsStopped,
    threads: Threads,
) -> NeededAgain:
    """Look at the files in quarantine whose names a table needs, and at what was moved there unnoticed.

    Args:
        table: as it was loaded.
        wanted: the files that are judged.
        named: by such a name, what the table names.
        is_stopped: asked between two files.
        threads: how files are looked at together.

    Raises:
        OSError, UnreadableError: a manifest list or manifest cannot be read.
        Stopped: so it was wanted.
    """
    found = NeededAgain()
    if wanted.home is None or not named:
        return found
    home, places = wanted.home, list[tuple[str, str]]()
    targets = targets_of(wanted)
    for mark in wanted.marks:
        if name_of(mark.path) not in named:
            continue
        if mark.cause is Cause.QUARANTINED and (origin := origin_of(mark.path, home)) is not None:
            places.append((mark.path, origin))
        elif mark.path in targets:
            places.append((targets[mark.path], mark.path))
    _look(table.io, places, found, is_stopped, threads)
    there = [both for both in places if both[0] in found.in_quarantine]
    if there:
        _compare(table, there, named, found, is_stopped, threads)
    return found


def _compare(
    table: Table,
    places: Collection[tuple[str, str]],
    named: Mapping[str, Collection[str]],
    found: NeededAgain,
    is_stopped: IsStopped,
    threads: Threads,
) -> None:
    """Hold what is in quarantine, each with where it was, against what the table names."""
    those, files = {name_of(place) for place, _ in places}, NamedFiles()
    for location in (one for name in those for one in named[name]):
        files.add(location)
    for location, size_bytes in sizes_named(table.metadata, table.io, ByName(those), is_stopped, threads):
        files.add(location, size_bytes)

    def compare(both: tuple[str, str]) -> None:
        if is_stopped():
            raise Stopped
        place, origin = both
        found.sizes[place] = files.sizes_at(origin)
        if files.has(origin) and not files.has(place):
            found.named_at_origin.add(place)
        # A store that does not say has not shown that nobody needs it.
        with suppress(Exception):
            if files.are_elsewhere(origin, lambda location: size_of(table.io, location)):
                found.elsewhere.add(place)

    for _ in threads.each(compare, list(places), REQUESTS_AT_ONCE):
        pass


def _look(
    io: FileIO,
    places: Iterable[tuple[str, str]],
    found: NeededAgain,
    is_stopped: IsStopped,
    threads: Threads,
) -> None:
    def look(both: tuple[str, str]) -> None:
        if is_stopped():
            raise Stopped
        place, origin = both
        for path, sizes in ((place, found.in_quarantine), (origin, found.at_origin)):
            # What cannot be looked at cannot be put back either, and that is told.
            with suppress(Exception):
                size_bytes = size_of(io, path)
                if size_bytes is not None:
                    sizes[place] = size_bytes

    for _ in threads.each(look, list(places), REQUESTS_AT_ONCE):
        pass
