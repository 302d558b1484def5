"""A REST catalog each of whose requests ends, however its server answers.

An answer that trickles in is bounded as a whole: a time-out that begins again with each byte would never end it. Its head
is not so bounded: there each byte may take the time-out.
"""

import io
from collections.abc import Callable, Iterator
from typing import Any

from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.exceptions import BadRequestError
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from requests import ConnectionError as BrokenConnection
from requests import PreparedRequest, ReadTimeout, Response, Session
from urllib3.exceptions import HTTPError

from isotherm.clients.file_clients import FileClients
from isotherm.clients.metadata_file import NEWEST, newest_of, newest_only, within_limits
from isotherm.clients.pages import Pages
from isotherm.clients.tokens import bound_tokens
from isotherm.runtime.clock import monotonic_s

CONNECT_TIMEOUT_S = 5
"""A server that is there takes a connection at once; what does not answer by then is mostly a wrong address."""
WHOLE_ANSWER = 4
"""So many time-outs for an answer as a whole: a metadata.json of a hundred megabytes comes over a slow line by then."""
PIECE_BYTES = 256 * 1024
SNAPSHOT_LOADING_MODE = "snapshot-loading-mode"


class _InQuery(tuple[str, ...]):
    """A namespace in the query of an address, which `requests` quotes by itself."""

    __slots__ = ()


class LimitedRestCatalog(RestCatalog):
    """A REST catalog each of whose requests ends, and which quotes each name once."""

    def __init__(self, name: str, timeout_s: float, **properties: Any) -> None:
        self._timeout_s = timeout_s
        self._clients = FileClients(super()._load_file_io)
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
