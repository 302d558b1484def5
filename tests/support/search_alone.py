"""A search of one table's folders, without a daemon."""

from isotherm.core.deletion import Cause, Neighbours, own_folders
from isotherm.core.orphan_findings import Found
from isotherm.iceberg.orphan_search import find
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Search
from support.lab import uuid_of

DAY_MS = 86_400_000
START_S = 1_700_000_000


def search_of(table, cause=Cause.ORPHAN, ahead_ms=DAY_MS, **more):
    location = table.metadata.location
    neighbours = Neighbours(own_folders(location, (), ("shop", "orders")), more.pop("others", ()))
    return Search(uuid_of(table), cause, location, neighbours, now_ms() + ahead_ms, **more)


def found(table, *args, **more):
    result = find(table, search_of(table, *args, **more))
    assert isinstance(result, Found), result
    return result


def put(table, *names):
    for name in names:
        with table.io.new_output(f"{table.metadata.location}/{name}").create() as stream:
            stream.write(b"nobody knows me")
