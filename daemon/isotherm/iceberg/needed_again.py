"""What is known of files in quarantine of whose names a table has one: their sizes, and what lies where they were.

A stream that plays an epoch again may give a file a name of before. So the table names a file, and in quarantine lie
another one of that name, or several. Sizes tell them apart: manifests have those of what they name.
"""

from collections.abc import Collection, Iterable
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
from isotherm.iceberg.quarantine import targets_of
from isotherm.iceberg.stopping import IsStopped, Stopped
from isotherm.iceberg.threads import Threads
from isotherm.service.ports import Sweep


@dataclass(frozen=True, slots=True)
class NeededAgain:
    """Of files in quarantine that have a name which the table needs."""

    sizes: dict[str, set[int]] = field(default_factory=dict)
    """By name, what manifests say."""
    in_quarantine: dict[str, int] = field(default_factory=dict)
    """By place."""
    at_origin: dict[str, int] = field(default_factory=dict)
    """By place: what lies where it was."""


def needed_again(
    table: Table, wanted: Sweep, names: Collection[str], is_stopped: IsStopped, threads: Threads
) -> NeededAgain:
    """Look at the files in quarantine whose names are among these, and at what was moved there unnoticed.

    Raises:
        OSError, UnreadableError: a manifest list or manifest cannot be read.
        Stopped: so it was wanted.
    """
    found = NeededAgain()
    if wanted.home is None or not names:
        return found
    home, places = wanted.home, list[tuple[str, str]]()
    targets = targets_of(wanted)
    for mark in wanted.marks:
        if name_of(mark.path) not in names:
            continue
        if mark.cause is Cause.QUARANTINED and (origin := origin_of(mark.path, home)) is not None:
            places.append((mark.path, origin))
        elif mark.path in targets:
            places.append((targets[mark.path], mark.path))
    _look(table.io, places, found, is_stopped, threads)
    those = {name_of(place) for place, _ in places if place in found.in_quarantine}
    if those:
        for path, size_bytes in sizes_named(table.metadata, table.io, ByName(those), is_stopped, threads):
            found.sizes.setdefault(name_of(path), set()).add(size_bytes)
    return found


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
