"""What a person has put back from a table's quarantine: found by listing, and moved."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyiceberg.table import Table

from isotherm.clients.listing import written_at_ms
from isotherm.clients.moving import OtherFileError, size_of
from isotherm.clients.storage import REQUESTS_AT_ONCE
from isotherm.contract.paths import cluster, folder
from isotherm.core.deletion import name_of
from isotherm.core.quarantine import fits, origin_of
from isotherm.iceberg.by_name import ByName
from isotherm.iceberg.manifests.reachability import sizes_named
from isotherm.iceberg.quarantine import listed, put_back
from isotherm.iceberg.threads import THREADS
from isotherm.service.ports import LoadedTable


@dataclass(frozen=True, slots=True)
class Restorable:
    """A file in quarantine."""

    home: str
    """The location of its table."""
    place: str
    """Where it lies."""
    origin: str
    """Where it was."""
    written_at_ms: int


def restorable(loaded: LoadedTable, homes: Collection[str]) -> list[Restorable]:
    """What is in a table's quarantine, below any of these locations, of which some may be spellings of one.

    Raises:
        OSError: the store does not answer, or refuses.
    """
    table: Table = loaded.handle
    return [
        Restorable(home, one.path, origin, one.written_at_ms)
        for home in _places(homes)
        for one in listed(table.io, home)
        if (origin := origin_of(one.path, home)) is not None
    ]


def _places(homes: Iterable[str]) -> list[str]:
    """Each place once, as it is spelled first. A cluster of HDFS that one spelling leaves out is that of the other."""
    found: list[str] = []
    for home in homes:
        same = (one for one in found if folder(one) == folder(home))
        if not any(cluster(one) == cluster(home) or not (cluster(one) and cluster(home)) for one in same):
            found.append(home)
    return found


def restore(loaded: LoadedTable, files: Iterable[Restorable]) -> tuple[dict[str, int], dict[str, str]]:
    """Move files to where they were. Gives those paths, with the time that the store has of each, and why others stay.

    Of several that had one path the newest comes back that has the size which the table's manifests say, where they name it:
    another one would give its readers other rows, without a word.

    Raises:
        OSError, UnreadableError: a manifest list or manifest cannot be read.
    """
    table: Table = loaded.handle
    files = list(files)
    names, sizes = {name_of(one.origin) for one in files}, dict[str, set[int]]()
    for path, size_bytes in sizes_named(table.metadata, table.io, ByName(names)):
        sizes.setdefault(name_of(path), set()).add(size_bytes)
    by_origin: dict[str, list[Restorable]] = {}
    for file in sorted(files, key=lambda one: one.written_at_ms, reverse=True):
        by_origin.setdefault(file.origin, []).append(file)
    restored: dict[str, int] = {}
    failed: dict[str, str] = {}

    def put(same: list[Restorable]) -> None:
        for file in same:
            named = sizes.get(name_of(file.origin), set())
            try:
                if not fits(size := size_of(table.io, file.place) or 0, named):
                    said = ", ".join(map(str, sorted(named)))
                    failed[file.place] = f"it has {size} bytes, and the table names one of {said} bytes there"
                    continue
                put_back(table.io, file.home, file.place)
                restored[file.origin] = written_at_ms(table.io, file.origin) or 0
            except OtherFileError:
                failed[file.place] = f"another file is at {file.origin}: move or delete that, and try again"
            except Exception as err:  # noqa: BLE001 (every store has errors of its own)
                failed[file.place] = f"{type(err).__name__}: {err}"

    for _ in THREADS.each(put, list(by_origin.values()), REQUESTS_AT_ONCE):
        pass
    return dict(sorted(restored.items())), dict(sorted(failed.items()))
