"""/metrics, /livez, /readyz and /tables, and reports of scans where they are wanted. No orders, no secrets, loopback by default.

/livez: the loop has turned lately (never a reason to restart because Kafka or the catalog is away). /readyz: policies
loaded, control topic assigned, catalog answering, and the loop has turned within a minute; else 503 with what is missing.
"""

from collections.abc import Callable
from http import HTTPStatus

from prometheus_client import CollectorRegistry

from isotherm.core.observations import Reported
from isotherm.runtime import http_server
from isotherm.runtime.clock import monotonic_s
from isotherm.service.health import Health
from isotherm.service.tables.scan_reports import ScanReports
from isotherm.telemetry import scan_reports
from isotherm.telemetry.board import Board


def serve(
    host: str,
    port: int,
    registry: CollectorRegistry,
    health: Health,
    reports: ScanReports | None = None,
    board: Board | None = None,
) -> int:
    """Serve for as long as the process lives; gives the port. Without `reports`, none are taken.

    Raises:
        OSError: the address is not free.
    """
    probes = {
        "/livez": lambda: "" if health.is_alive(monotonic_s()) else "the loop is stuck",
        "/readyz": lambda: "; ".join(health.missing(monotonic_s())),
    }
    posts = None if reports is None else _Posts(reports)
    pages = {} if board is None else {"/tables": board.page}
    return http_server.serve(host, port, registry, probes, posts, pages)


class _Posts:
    """Reports of scans."""

    max_bytes = scan_reports.MAX_BYTES

    def __init__(self, reports: ScanReports) -> None:
        self._reports = reports

    def answer(self, uri: str, body: Callable[[], bytes]) -> tuple[HTTPStatus, bytes] | None:
        table = scan_reports.table_of(uri)
        return None if table is None else scan_reports.answer(self._reports, table, body())

    def was_too_large(self) -> None:
        self._reports.heard(Reported.REFUSED)
