"""/metrics, /livez and /readyz. Read only, no secrets, loopback by default.

/livez: the loop has turned lately (never a reason to restart because Kafka or the catalog is away). /readyz: policies
loaded, control topic assigned, catalog answering; else 503 with what is missing.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import waitress
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app

from isotherm.clock import monotonic_s
from isotherm.health import Health

START = Callable[..., Any]


class HttpServer:
    """The port, served by a few threads of its own."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry, health: Health) -> None:
        """Listen; port 0 is any free one.

        Raises:
            OSError: the address is not free.
        """
        application = _application(registry, health)
        self._server = waitress.create_server(
            application,
            host=host,
            port=port,
            threads=2,
            connection_limit=20,
            channel_timeout=10,
            max_request_body_size=1024,
            ident=None,
        )
        self.port = int(self._server.effective_port)
        # It lives as long as the process: waitress cannot be closed from outside of its own thread without noise.
        threading.Thread(target=self._server.run, name="http", daemon=True).start()


def _application(
    registry: CollectorRegistry, health: Health
) -> Callable[[dict[str, Any], START], Iterable[bytes]]:
    metrics = make_wsgi_app(registry)

    def application(environ: dict[str, Any], start: START) -> Iterable[bytes]:
        match environ.get("PATH_INFO"):
            case "/metrics":
                body: Iterable[bytes] = metrics(environ, start)
                return body
            case "/livez":
                alive = health.is_alive(monotonic_s())
                return _answer(start, alive, "ok" if alive else "the loop is stuck")
            case "/readyz":
                missing = health.missing()
                return _answer(start, not missing, "; ".join(missing) or "ok")
            case _:
                start("404 Not Found", [("Content-Type", "text/plain")])
                return [b"/metrics /livez /readyz\n"]

    return application


def _answer(start: START, fine: bool, text: str) -> list[bytes]:
    start("200 OK" if fine else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
