"""Which hosts of HDFS are asked for files: the operator's, and those that a catalog itself gave as places of metadata.

PyIceberg connects to the host in any path, and whoever owns a table chooses the paths that its metadata names. So a path
to another host is refused before anybody is asked. What a catalog gave is remembered while the process lives; a rewrite,
which asks no catalog, gets it as a property.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from threading import local
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.io import HDFS_HOST, HDFS_PORT, WAREHOUSE

SCHEMES = ("hdfs", "viewfs")
NAME_NODES = "isotherm.name-nodes"
"""Property of a client: the hosts that a catalog gave, as `hdfs://name:8020`, parted by spaces."""
MOST = 64
"""Hosts that are remembered. One that was forgotten is given again when a table of it is loaded."""
DEFAULT_PORT = "8020"


class ForeignHostError(ValueError):
    """A path names a host of HDFS that neither the operator nor the catalog knows: it is not asked."""


class _Loading(local):
    """Whether this thread loads a table: then the catalog alone says what is read."""

    is_on: bool = False


_loading = _Loading()


@contextmanager
def loading() -> Iterator[None]:
    """Inside, this thread reads nothing but the metadata that a catalog gives."""
    before, _loading.is_on = _loading.is_on, True
    try:
        yield
    finally:
        _loading.is_on = before


def name_node(location: str) -> str | None:
    """The host of HDFS in a location, as `hdfs://name:8020`; None where there is none.

    A name without a port is one with the usual one, or that of a group of hosts.
    """
    parts = urlsplit(location)
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(f":{DEFAULT_PORT}")
    return f"{parts.scheme}://{host}" if parts.scheme in SCHEMES and host else None


def check(host: str, properties: Mapping[str, Any], given: Collection[str]) -> None:
    """Refuse a host, as `hdfs://name:8020`, unless the operator or a catalog named it.

    Args:
        host: as `name_node` gives it.
        properties: the operator's.
        given: the hosts that a catalog gave.

    Raises:
        ForeignHostError: nobody did.
    """
    name, port = str(properties.get(HDFS_HOST, "")), str(properties.get(HDFS_PORT, DEFAULT_PORT))
    operators = {name_node(str(properties.get(WAREHOUSE, "")))}
    operators |= {
        name_node(f"{scheme}://{one}") for scheme in SCHEMES for one in (name, f"{name}:{port}") if name
    }
    if not _loading.is_on and name_node(host) not in {*operators, *given}:
        raise ForeignHostError(
            f"{host} is not asked: a path of the table names it, and neither the catalog's own locations nor "
            f"catalog.properties ({HDFS_HOST}, {WAREHOUSE}) do"
        )
