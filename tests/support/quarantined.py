"""A table with files that nobody knows, or that are in its quarantine, and a sweep of them."""

from dataclasses import replace

from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, own_folders
from isotherm.core.quarantine import place_for
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.stopping import never
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Sweep
from support.lab import uuid_of

DAY_MS = 86_400_000
CONTENT = b"nobody knows me"


def put(table, *names, content=CONTENT):
    for name in names:
        with table.io.new_output(f"{table.metadata.location}/{name}").create() as stream:
            stream.write(content)
    return [f"{table.metadata.location}/{name}" for name in names]


def content(table, path):
    file = table.io.new_input(path)
    if not file.exists():
        return None
    with file.open() as stream:
        return bytes(stream.read())


def orphan(path):
    return Mark(path, "job", Cause.ORPHAN, Seen(1, 1))


def quarantined(table, name):
    """A mark of a file in quarantine, by where it was."""
    home = table.metadata.location
    return Mark(place_for(f"{home}/{name}", home, "job"), "job", Cause.QUARANTINED, Seen(1, 1))


def swept(table, *marks, **more):
    home = table.metadata.location
    wanted = Sweep(
        uuid_of(table),
        marks,
        {},
        Neighbours(own_folders(home, (), ("shop", "orders"))),
        {Cause.ORPHAN: now_ms() + DAY_MS, Cause.OLD_VERSION: now_ms() + DAY_MS},
        home=home,
        to_quarantine=True,
    )
    return sweep(table.refresh(), replace(wanted, **more), never)


def named_again(table, path):
    """The table gets rows in a file of this name, by a writer that was slow."""
    (file,) = table.inspect.files()["file_path"].to_pylist()[:1]
    data = content(table, file)
    with table.io.new_output(path).create() as stream:
        stream.write(data)
    table.add_files([path])
    return data
