"""PyIceberg's catalogs, with a limit on how long they may take, and on what the owner of a table may choose.

PyIceberg sets no time-out on a REST catalog, and boto3 waits for a minute, eleven times. The daemon has one loop, so
a catalog that accepts a connection and says nothing would stop it for ever. A time-out is no answer: a commit that ran
into one may have landed, and the committer looks.

PyIceberg lets a table's own properties choose the code that reads its files, and the host that gets our keys
(apache/iceberg-python#3931). Here none of them reaches the files' client: its properties come from the operator's
configuration, from the catalog's server, and with the credentials that it vends. Nor do its paths choose a host of HDFS
(`name_nodes`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg.catalog import (
    BOTOCORE_SESSION,
    TYPE,
    Catalog,
    CatalogType,
    MetastoreCatalog,
    infer_catalog_type,
    load_catalog,
)
from pyiceberg.catalog.rest import SIGV4_MAX_RETRIES
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.utils.config import Config, merge_config

from isotherm.clients.file_clients import FileClients
from isotherm.clients.first_answers import check_keys, check_sql_schema
from isotherm.clients.format_three import write_metadata
from isotherm.clients.metadata_checks import check
from isotherm.clients.metadata_file import NEWEST, opened
from isotherm.clients.name_nodes import loading
from isotherm.clients.pyiceberg_models import stop_at_first_fault
from isotherm.clients.rest import CONNECT_TIMEOUT_S, SNAPSHOT_LOADING_MODE, LimitedRestCatalog
from isotherm.clients.storage import RetryingFileIO
from isotherm.clients.whole_doubles import read_whole_doubles
from isotherm.contract.identity import levels_of

RETRIES = 2
"""PyIceberg asks for ten of Glue and of a signed REST catalog. The loop tries again by itself, and says so."""


def open_catalog(
    name: str, properties: Mapping[str, str], timeout_s: float, newest: int | None = None
) -> Catalog:
    """The catalog that PyIceberg's properties, its own file and its environment variables describe.

    Args:
        name: of the catalog.
        properties: PyIceberg's.
        timeout_s: of one request.
        newest: how many snapshots of a table are wanted, as `metadata_file.newest_only` counts; None for all.
    """
    stop_at_first_fault()
    read_whole_doubles()
    catalog = _opened(name, properties, timeout_s)
    # Nobody else may choose this: who deletes needs all of them.
    catalog.properties.pop(NEWEST, None)
    if newest is not None:
        catalog.properties[NEWEST] = str(newest)
    if isinstance(catalog, MetastoreCatalog):
        catalog._write_metadata = write_metadata  # type: ignore[method-assign]  # noqa: SLF001 (PyIceberg asks it alone)
    return _by_name(_checking(catalog))


def _opened(name: str, properties: Mapping[str, str], timeout_s: float) -> Catalog:
    given = merge_config(Config().get_catalog_config(name) or {}, dict(properties))
    match _kind(name, given):
        case CatalogType.REST:
            if str(given.get(SNAPSHOT_LOADING_MODE, "all")).lower() != "all":
                raise ValueError(
                    f"catalog {name}: {SNAPSHOT_LOADING_MODE} must be `all`: what no branch or tag names would else be "
                    "taken for gone, and its files deleted"
                )
            return LimitedRestCatalog(name, timeout_s, **{SIGV4_MAX_RETRIES: str(RETRIES), **given})
        case CatalogType.GLUE:
            from isotherm.clients.glue import PointingGlueCatalog  # with boto3, which others do not need

            return _closed(
                _aws_catalog(
                    lambda ours: PointingGlueCatalog(name, **{**given, **ours}), properties, timeout_s
                )
            )
        case CatalogType.DYNAMODB:
            return _closed(
                _aws_catalog(lambda ours: load_catalog(name, **{**properties, **ours}), properties, timeout_s)
            )
        case CatalogType.HIVE:
            from isotherm.clients.hive import hive_catalog  # with Thrift, which others do not need

            return _closed(hive_catalog(name, properties, timeout_s))
        case CatalogType.SQL:
            catalog = load_catalog(name, **properties)
            check_sql_schema(catalog)
            return _closed(catalog)
        case CatalogType():
            return _closed(load_catalog(name, **properties))
        case None:  # a class of the operator's
            return load_catalog(name, **properties)


def _checking(catalog: Catalog) -> Catalog:
    """Have it give no table whose metadata contradicts itself, as Java's parser does, and say in which file what is wrong."""
    load = catalog.load_table

    def load_table(identifier: str | Identifier) -> Table:
        opened.location = None
        try:
            with loading():
                table = load(identifier)
            if isinstance(table.io, RetryingFileIO):
                table.io.may_ask(table.metadata_location)
            check(table.metadata)
        except Exception as err:
            if opened.location is not None and opened.location not in str(err):
                err.add_note(f"in {opened.location}")
            raise
        return table

    catalog.load_table = load_table  # type: ignore[method-assign]
    return catalog


def _by_name(catalog: Catalog) -> Catalog:
    """Have it load a table by its name as we write it (`identity.name_from`): PyIceberg divides it at each dot."""
    load = catalog.load_table

    def load_table(identifier: str | Identifier) -> Table:
        return load(levels_of(identifier) if isinstance(identifier, str) else identifier)

    catalog.load_table = load_table  # type: ignore[method-assign]
    return catalog


def _closed(catalog: Catalog) -> Catalog:
    """Give the files' client the catalog's properties alone; such a catalog adds none of its own."""
    clients = FileClients(lambda _, location: load_file_io(catalog.properties, location))

    def load(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:  # noqa: ARG001
        files = clients.of(EMPTY_DICT, location)
        if isinstance(files, RetryingFileIO) and location is not None:
            files.metadata_locations.append(location)
        return files

    catalog._load_file_io = load  # type: ignore[method-assign] # noqa: SLF001 (there is no other way in)
    return catalog


def _kind(name: str, given: Mapping[str, Any]) -> CatalogType | None:
    """The type of a catalog; None where the operator names a class."""
    if "py-catalog-impl" in given:
        return None
    if kind := given.get(TYPE):
        return CatalogType(str(kind).lower())
    return infer_catalog_type(name, dict(given))


def _aws_catalog(
    make: Callable[[dict[str, Any]], Catalog], properties: Mapping[str, str], timeout_s: float
) -> Catalog:
    """Glue or DynamoDB, through a session whose clients have time-outs."""
    import botocore.session
    from botocore.config import Config as ClientConfig

    session = botocore.session.Session()
    session.set_default_client_config(
        ClientConfig(
            connect_timeout=min(CONNECT_TIMEOUT_S, timeout_s),
            read_timeout=timeout_s,
            retries={"total_max_attempts": 1 + RETRIES, "mode": "standard"},
        )
    )
    # PyIceberg hands the number of retries on as it is, and botocore takes no text.
    ours: dict[str, Any] = {
        BOTOCORE_SESSION: session,
        "glue.max-retries": int(properties.get("glue.max-retries", RETRIES)),
    }
    catalog = make(ours)
    check_keys(session)
    for key in ours:
        # Only the client needed them: what is left goes to the files' client, and into another process.
        catalog.properties.pop(key, None)
    return catalog
