"""The port of a process: /metrics, /livez and /readyz, and pages of its own, for which a thread is free whatever other visitors do."""

import errno
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from time import monotonic, sleep
from typing import Any, Protocol

import waitress
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.utilities import RequestEntityTooLarge

from isotherm.runtime import logs

Start = Callable[..., Any]
Application = Callable[[dict[str, Any], Start], Iterable[bytes]]
Probes = Mapping[str, Callable[[], str]]
"""By path, what says what is wrong, or nothing where all is well."""
KEPT_CONNECTIONS = 20
"""Above so many, the oldest connection without a request is closed for each new one."""
REQUEST_WITHIN_S = 5
"""From its first byte a request may take so long to arrive, however often a byte comes."""
THREADS = 4
METRICS_AT_ONCE = 2
"""A scrape of thousands of tables takes seconds; probes always find a thread."""
MAX_BODY_BYTES = 1024
"""Where nothing is taken in, nobody has anything to send."""
AGAIN_AFTER_S = 1.0
"""A server that broke off begins again after this: probes are asked every few seconds, and it may break off each time."""


SHORT_OF = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""What the system may lack for one more connection; it waits at the port, and is taken later."""
SHORT_WAIT_S = 0.2
SAID_EVERY_S = 60.0


Pages = Mapping[str, Callable[[], bytes]]
"""By path, what is answered there as JSON."""


class Posts(Protocol):
    """What is taken in beside, by POST."""

    max_bytes: int
    """A body of more is refused before it is read."""

    def answer(self, uri: str, body: Callable[[], bytes]) -> tuple[HTTPStatus, bytes] | None:
        """Take what was sent to an address. Returns None where nothing is taken there; the body is not read then."""

    def was_too_large(self) -> None:
        """Told of each body that was refused."""


def serve(
    host: str,
    port: int,
    registry: CollectorRegistry,
    probes: Probes,
    posts: Posts | None = None,
    pages: Pages | None = None,
) -> int:
    """Serve for as long as the process lives; gives the port, which matters where 0 was asked for.

    Raises:
        OSError: the address is not free.
    """
    listeners: dict[int, Any] = {}
    server = waitress.create_server(
        application(registry, probes, posts, pages),
        map=listeners,
        host=host,
        port=port,
        threads=THREADS,
        connection_limit=5 * KEPT_CONNECTIONS,
        channel_timeout=REQUEST_WITHIN_S,
        cleanup_interval=1,
        # Bodies of this size are refused.
        max_request_body_size=MAX_BODY_BYTES if posts is None else posts.max_bytes + 1,
        # select() takes no descriptor from 1024 on, and a process with many tables has more.
        asyncore_use_poll=True,
        ident=None,
    )
    # One for each address that the host's name has.
    servers = [one for one in listeners.values() if isinstance(one, TcpWSGIServer)]
    for one in servers:
        one.channel_class = type("Connection", (_Connection,), {"posts": posts})
        one.accept = _Accept(one.accept)
    # It lives as long as the process: waitress cannot be closed from outside of its own thread without noise.
    threading.Thread(target=_answer_for_ever, args=(server,), name="http", daemon=True).start()
    return int(servers[0].effective_port)


def _answer_for_ever(server: Any) -> None:
    """Have the server begin again whatever breaks it off: without probes a supervisor ends a process that is well."""
    while True:
        try:
            server.run()
        except Exception:  # noqa: BLE001 (whatever it was, the port goes on)
            logs.get().error("http_broke_off", exc_info=True)
        sleep(AGAIN_AFTER_S)


class _Accept:
    """Takes a connection. Where the system lacks what that needs, it pauses, and says so now and then.

    poll() says again and again that somebody is waiting at the port: without a pause that took a processor, and filled
    the log with the same error.
    """

    def __init__(self, accept: Callable[[], tuple[socket.socket, Any] | None]) -> None:
        self._accept = accept
        self._quiet_until_s = 0.0

    def __call__(self) -> tuple[socket.socket, Any] | None:
        """The connection and who it is, or None where there is none to take now."""
        try:
            return self._accept()
        except OSError as err:
            if err.errno not in SHORT_OF:
                raise
            if monotonic() >= self._quiet_until_s:
                self._quiet_until_s = monotonic() + SAID_EVERY_S
                logs.get().error("http_takes_nobody", error=str(err))
            sleep(SHORT_WAIT_S)
            return None


class _Connection(HTTPChannel):  # type: ignore[misc]
    """A connection that cannot be held open by saying little, nor a thread by reading nothing.

    It is closed after one answer. waitress waits without a time-out before it answers a second request on a connection
    whose client does not read the first answers, and four such clients would take every thread.
    """

    last_activity: float
    posts: Posts | None

    def __init__(self, server: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(server, *args, **kwargs)
        others = [one for one in server.active_channels.values() if one is not self]
        idle = [one for one in others if not one.requests]
        if idle and len(others) >= KEPT_CONNECTIONS:
            min(idle, key=lambda one: one.creation_time).handle_close()

    def handle_read(self) -> None:
        """Take some bytes; they count as activity once they are a whole request."""
        before: float = self.last_activity
        super().handle_read()
        if self.request is not None:
            self.last_activity = before

    def service(self) -> None:
        """Answer a request. One that is too large was refused before it was read."""
        request = self.requests[0]
        if self.posts is not None and isinstance(request.error, RequestEntityTooLarge):
            self.posts.was_too_large()
        request.headers["CONNECTION"] = "close"
        super().service()


def application(
    registry: CollectorRegistry, probes: Probes, posts: Posts | None = None, pages: Pages | None = None
) -> Application:
    """The WSGI application."""
    pages = pages or {}
    metrics = make_wsgi_app(registry)
    room = threading.BoundedSemaphore(METRICS_AT_ONCE)

    def answer(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics" or path in pages:
            if not room.acquire(blocking=False):
                return _text(start, f"{path} is being read already")
            try:
                page: Iterable[bytes]
                if path == "/metrics":
                    page = metrics(environ, start)
                else:
                    page = [pages[path]()]
                    start("200 OK", [("Content-Type", "application/json; charset=utf-8")])
            finally:
                room.release()
            return page
        if path in probes:
            return _text(start, probes[path]())
        if posts is not None and environ["REQUEST_METHOD"] == "POST":
            taken = posts.answer(environ["REQUEST_URI"], environ["wsgi.input"].read)
            if taken is not None:
                status, body = taken
                json = [("Content-Type", "application/json")] if body else []
                start(f"{status.value} {status.phrase}", json)
                return [body]
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [f"{' '.join(('/metrics', *probes, *pages))}\n".encode()]

    return answer


def _text(start: Start, trouble: str) -> list[bytes]:
    status = "503 Service Unavailable" if trouble else "200 OK"
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{trouble or 'ok'}\n".encode()]
