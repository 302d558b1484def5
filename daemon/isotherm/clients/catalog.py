"""PyIceberg's catalogs, with a limit on how long they may take, and on what the owner of a table may choose.

PyIceberg sets no time-out on a REST catalog, and boto3 waits for a minute, eleven times. The daemon has one loop, so
a catalog that accepts a connection and says nothing would stop it for ever. A time-out is no answer: a commit that ran
into one may have landed, and the committer looks.

PyIceberg lets a table's own properties choose the code that reads its files, and the host that gets our keys
(apache/iceberg-python#3931). Here none of them reaches the files' client: its properties come from the operator's
configuration, from the catalog's server, and with the credentials that it vends. Nor do its paths choose a host of HDFS
(`name_nodes`).

An answer that trickles in is bounded as a whole: a time-out that begins again with each byte would never end it. Not so
bounded are Hive's answers, and the head of one over HTTP: there each byte may take the time-out.
"""

import io
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from threading import Lock
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
from pyiceberg.catalog.rest import SIGV4_MAX_RETRIES, RestCatalog, TableResponse
from pyiceberg.exceptions import BadRequestError, ValidationError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.utils.config import Config, merge_config
from requests import ConnectionError as BrokenConnection
from requests import PreparedRequest, ReadTimeout, Response, Session
from urllib3.exceptions import HTTPError

from isotherm.clients.first_answers import check_keys, check_sql_schema
from isotherm.clients.format_three import write_metadata
from isotherm.clients.metadata_file import NEWEST, newest_of, newest_only, opened, within_limits
from isotherm.clients.name_nodes import loading
from isotherm.clients.pages import Pages
from isotherm.clients.pyiceberg_models import stop_at_first_fault
from isotherm.clients.storage import RetryingFileIO
from isotherm.clients.tokens import bound_tokens
from isotherm.clients.whole_doubles import read_whole_doubles
from isotherm.contract.identity import levels_of
from isotherm.runtime.clock import monotonic_s

CONNECT_TIMEOUT_S = 5
"""A server that is there takes a connection at once; what does not answer by then is mostly a wrong address."""
WHOLE_ANSWER = 4
"""So many time-outs for an answer as a whole: a metadata.json of a hundred megabytes comes over a slow line by then."""
PIECE_BYTES = 256 * 1024
SNAPSHOT_LOADING_MODE = "snapshot-loading-mode"
FILE_CLIENTS = 64
"""Clients of files that are kept for tables to come: as many sets of credentials, each used for an hour or so."""
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
            return _RestCatalog(name, timeout_s, **{SIGV4_MAX_RETRIES: str(RETRIES), **given})
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
            _check_refs(table.metadata)
            _check_numbers(table.metadata)
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


def _check_refs(metadata: TableMetadata) -> None:
    """Refuse metadata whose head, a branch or a tag is a snapshot that is not in it.

    PyIceberg takes such a table for an empty one. Then nothing would seem to reach its files.

    Raises:
        ValidationError: it has one.
    """
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    named = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    if metadata.current_snapshot_id is not None:
        named["the current one"] = metadata.current_snapshot_id
    for name, snapshot_id in named.items():
        if snapshot_id not in there:
            raise ValidationError(f"its metadata has no snapshot {snapshot_id}, which is {name}")


LARGEST = 2**63
"""Iceberg's numbers are below it: they are Java's long."""
LARGEST_COUNT = 2**62
"""Times and sequence numbers are below it: the next snapshot's are greater, spans are added to times, and all of that must
be Java's long too. Times in nanoseconds are a third of it."""


def _check_numbers(metadata: TableMetadata) -> None:
    """Refuse metadata with numbers that Java, or a store of ours, cannot keep, or not those that come after them.

    Raises:
        ValidationError: it has one.
    """
    for what, number, limit in _numbers(metadata):
        if not -limit <= number < limit:
            raise ValidationError(f"its metadata has a number of {len(str(number))} digits as {what}")


def _numbers(metadata: TableMetadata) -> Iterator[tuple[str, int, int]]:
    """The numbers of metadata by what they are, each with its limit."""
    yield "last-updated-ms", metadata.last_updated_ms, LARGEST_COUNT
    # Versions 1 and 2 do not have them all.
    yield "last-sequence-number", getattr(metadata, "last_sequence_number", 0), LARGEST_COUNT
    yield "next-row-id", getattr(metadata, "next_row_id", None) or 0, LARGEST_COUNT
    for snapshot in metadata.snapshots:
        yield "a snapshot-id", snapshot.snapshot_id, LARGEST
        yield "a snapshot's sequence-number", snapshot.sequence_number or 0, LARGEST_COUNT
        yield "a snapshot's timestamp-ms", snapshot.timestamp_ms, LARGEST_COUNT
    for at_ms in chain(
        (entry.timestamp_ms for entry in metadata.snapshot_log),
        (entry.timestamp_ms for entry in metadata.metadata_log),
    ):
        yield "the timestamp-ms of a log", at_ms, LARGEST_COUNT


class _FileClients:
    """The clients of files, one for each set of credentials rather than one for each table.

    Each holds connections of its own, and the daemon remembers thousands of tables.
    """

    def __init__(self, load: Callable[[Properties, str | None], FileIO]) -> None:
        self._load = load
        self._lock = Lock()
        self._kept: OrderedDict[object, FileIO] = OrderedDict()

    def of(self, properties: Properties, location: str | None) -> FileIO:
        """The client for these properties; it may be another table's too."""
        scheme = (location or "").partition("://")[0]
        key = (scheme, frozenset((name, str(value)) for name, value in properties.items()))
        with self._lock:
            client = self._kept.pop(key, None) or self._load(properties, location)
            self._kept[key] = client
            if len(self._kept) > FILE_CLIENTS:
                self._kept.popitem(last=False)
        return client


def _closed(catalog: Catalog) -> Catalog:
    """Give the files' client the catalog's properties alone; such a catalog adds none of its own."""
    clients = _FileClients(lambda _, location: load_file_io(catalog.properties, location))

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


class _InQuery(tuple[str, ...]):
    """A namespace in the query of an address, which `requests` quotes by itself."""

    __slots__ = ()


class _RestCatalog(RestCatalog):
    """A REST catalog each of whose requests ends, and which quotes each name once."""

    def __init__(self, name: str, timeout_s: float, **properties: Any) -> None:
        self._timeout_s = timeout_s
        self._clients = _FileClients(super()._load_file_io)
        super().__init__(name, **properties)
        # Whatever the server's own configuration says: without it, what no branch or tag names would be taken for
        # gone.
        self.properties[SNAPSHOT_LOADING_MODE] = "all"

    def _config_headers(self, session: Session) -> None:
        """Prepare a new session; called before its first request, which may be the one for a token."""
        super()._config_headers(session)
        _bound(session, self._timeout_s, lambda: newest_of(self.properties))

    def _create_session(self) -> Session:
        session = super()._create_session()
        bound_tokens(self._auth_manager, self._session_for_tokens)
        return session

    def _session_for_tokens(self) -> Session:
        session = Session()
        _bound(session, self._timeout_s, lambda: None)
        return session

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Return the namespaces right below one, or those at the top."""
        below: list[Identifier] = super().list_namespaces(_InQuery(self.identifier_to_tuple(namespace)))
        return below

    def _encode_namespace_path(self, namespace: Identifier) -> str:
        """Quote a namespace for an address.

        PyIceberg quotes it in a query too, which is quoted then a second time. A server knows nothing below such a
        name, if it has a space, a letter beyond ASCII or an apostrophe.
        """
        if isinstance(namespace, _InQuery):
            return self._namespace_separator.join(namespace)
        return super()._encode_namespace_path(namespace)

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        theirs = {name: value for name, value in properties.items() if name != NEWEST}
        return self._clients.of(theirs, location)

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        """Make a table of an answer; its files' client does not see the properties in its metadata."""
        metadata = table_response.metadata
        bare = metadata.model_copy(update={"properties": {}})
        table = super()._response_to_table(
            identifier_tuple, table_response.model_copy(update={"metadata": bare})
        )
        table.metadata = metadata
        return table


def _bound(session: Session, timeout_s: float, newest: Callable[[], int | None]) -> None:
    """Give each request of a session a time-out, and each list an end, whichever adapter sends it (SigV4 brings its own)."""
    send = session.send
    pages = Pages()

    def bounded(request: PreparedRequest, **kwargs: Any) -> Response:
        kwargs["timeout"] = kwargs.get("timeout") or (min(CONNECT_TIMEOUT_S, timeout_s), timeout_s)
        kwargs["stream"] = True
        until_s = monotonic_s() + WHOLE_ANSWER * timeout_s
        if request.method in ("GET", "HEAD"):
            answer = _whole(send(request, **kwargs), until_s, newest())
            if (
                not answer.is_redirect and not answer.history
            ):  # where it was redirected, its end has been checked
                pages.check(request.url or "", answer.raw.getvalue())
            return answer
        # `requests` would follow with a GET, whose answer looks like that of a commit.
        answer = _whole(send(request, **{**kwargs, "allow_redirects": False}), until_s)
        if answer.is_redirect:
            raise BadRequestError(
                f"the catalog redirects {request.method} {request.url} to {answer.headers.get('Location')}: "
                "put that address into catalog.properties.uri"
            )
        return answer

    session.send = bounded  # type: ignore[method-assign]


def _whole(answer: Response, until_s: float, newest: int | None = None) -> Response:
    """The answer with its body read, which must be over by then, and no larger than a table's metadata may be."""
    if isinstance(answer.raw, io.BytesIO):  # the end of a redirect, which has come through here by itself
        return answer
    what = f"the answer to {answer.request.method} {answer.url}"
    try:
        body = within_limits(_pieces(answer, until_s), what)
        answer.raw = io.BytesIO(body if newest is None else newest_only(body, newest))
    except HTTPError as err:
        raise BrokenConnection(err, response=answer) from err
    except ValueError:
        answer.raw.close()
        raise
    return answer


def _pieces(answer: Response, until_s: float) -> Iterator[bytes]:
    size = 0
    while piece := answer.raw.read1(PIECE_BYTES, decode_content=True):
        size += len(piece)
        if monotonic_s() > until_s:
            answer.raw.close()
            raise ReadTimeout(f"{answer.url} timed out: {size} bytes came, and the answer was not over")
        yield piece


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
