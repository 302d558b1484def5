"""/metrics, /livez and /readyz, and reports of scans where they are wanted. No orders, no secrets, loopback by default.

/livez: the loop has turned lately (never a reason to restart because Kafka or the catalog is away). /readyz: policies
loaded, control topic assigned, catalog answering, and the loop has turned within a minute; else 503 with what is missing.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import waitress
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.utilities import RequestEntityTooLarge

from isotherm.core.observations import Reported
from isotherm.runtime.clock import monotonic_s
from isotherm.service.health import Health
from isotherm.service.scan_reports import ScanReports
from isotherm.telemetry import scan_reports

START = Callable[..., Any]
KEPT_CONNECTIONS = 20
"""Above so many, the oldest connection without a request is closed for each new one."""
REQUEST_WITHIN_S = 5
"""From its first byte a request may take so long to arrive, however often a byte comes."""
THREADS = 4
METRICS_AT_ONCE = 2
"""A scrape of thousands of tables takes seconds; probes always find a thread."""
MAX_BODY_BYTES = 1024
"""Where no reports are taken, nobody has anything to send."""


class HttpServer:
    """The port, served by a few threads of its own."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        health: Health,
        reports: ScanReports | None = None,
    ) -> None:
        """Listen; port 0 is any free one. Without `reports`, none are taken.

        Raises:
            OSError: the address is not free.
        """
        listeners: dict[int, Any] = {}
        self._server = waitress.create_server(
            _application(registry, health, reports),
            map=listeners,
            host=host,
            port=port,
            threads=THREADS,
            connection_limit=5 * KEPT_CONNECTIONS,
            channel_timeout=REQUEST_WITHIN_S,
            cleanup_interval=1,
            # Bodies of this size are refused.
            max_request_body_size=MAX_BODY_BYTES if reports is None else scan_reports.MAX_BYTES + 1,
            ident=None,
        )
        # One for each address that the host's name has.
        servers = [one for one in listeners.values() if isinstance(one, TcpWSGIServer)]
        for server in servers:
            server.channel_class = type("Connection", (_Connection,), {"reports": reports})
        self.port = int(servers[0].effective_port)
        # It lives as long as the process: waitress cannot be closed from outside of its own thread without noise.
        threading.Thread(target=self._server.run, name="http", daemon=True).start()


class _Connection(HTTPChannel):  # type: ignore[misc]
    """A connection that cannot be held open by saying little, nor a thread by reading nothing.

    It is closed after one answer. waitress waits without a time-out before it answers a second request on a connection
    whose client does not read the first answers, and four such clients would take every thread.
    """

    last_activity: float
    reports: ScanReports | None

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
        """Answer a request. One that is too large was refused before it was read; only a report may be large."""
        request = self.requests[0]
        if self.reports is not None and isinstance(request.error, RequestEntityTooLarge):
            self.reports.heard(Reported.REFUSED)
        request.headers["CONNECTION"] = "close"
        super().service()


def _application(
    registry: CollectorRegistry, health: Health, reports: ScanReports | None
) -> Callable[[dict[str, Any], START], Iterable[bytes]]:
    metrics = make_wsgi_app(registry)
    room = threading.BoundedSemaphore(METRICS_AT_ONCE)

    def application(environ: dict[str, Any], start: START) -> Iterable[bytes]:
        match environ.get("PATH_INFO"):
            case "/metrics":
                if not room.acquire(blocking=False):
                    return _answer(start, fine=False, text="the metrics are being read already")
                try:
                    page: Iterable[bytes] = metrics(environ, start)
                finally:
                    room.release()
                return page
            case "/livez":
                alive = health.is_alive(monotonic_s())
                return _answer(start, alive, "ok" if alive else "the loop is stuck")
            case "/readyz":
                missing = health.missing(monotonic_s())
                return _answer(start, not missing, "; ".join(missing) or "ok")
            case _ if (
                reports is not None
                and environ["REQUEST_METHOD"] == "POST"
                and (table := scan_reports.table_of(environ["REQUEST_URI"])) is not None
            ):
                status, body = scan_reports.answer(reports, table, environ["wsgi.input"].read())
                start(
                    f"{status.value} {status.phrase}", [("Content-Type", "application/json")] if body else []
                )
                return [body]
            case _:
                start("404 Not Found", [("Content-Type", "text/plain")])
                return [b"/metrics /livez /readyz\n"]

    return application


def _answer(start: START, fine: bool, text: str) -> list[bytes]:
    start("200 OK" if fine else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
