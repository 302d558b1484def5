"""A proxy before an HTTP server that knows what goes wrong in front of one: a rollout, an ingress, a cut connection.

Faults of TCP alone would not do: whether a request was delivered before its answer was lost is what the tests are
about, and only what understands HTTP can say so.
"""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PATIENCE_S = 180
TRICKLE_S = 0.15
"""Shorter than any time-out; a list of one name takes seven seconds at this pace."""
ANSWERS = {
    "404": (404, "text/plain", "default backend - 404"),
    "500": (500, "text/plain", "Internal Server Error"),
    "501": (501, "text/html", "<html>Not Implemented</html>"),
    "502": (502, "text/html", "<html>Bad Gateway</html>"),
    "503": (503, "text/html", "<html>Service Unavailable</html>"),
    "html": (200, "text/html", "<html>Please sign in.</html>"),
    "redirect": (302, "text/html", "<html>Moved</html>"),
}
"""What is answered in the server's place; it never hears of the request."""


@dataclass
class Fault:
    """What happens to the next `times` requests of a method (or any: `*`) whose path, and body, contain something.

    Beside the kinds in `ANSWERS`: `unheard` (the connection ends before the server has heard), `lost` (it ends after
    that), `silence` (no answer, not heard), `held` (no answer, heard), `twice` (heard twice; the second answer counts),
    `late` (as `twice`, but the first copy is only heard when the client has its answer), `trickle` (a byte at a time),
    `stale` (the answer that such a request got before), `passed` (nothing at all; `then` comes after it).
    """

    method: str
    path: str
    times: int
    kind: str
    holds: bytes = b""
    """In the body."""
    then: "Fault | None" = None
    """What happens from then on, once such a request was answered."""
    met: int = 0
    happened: threading.Event = field(default_factory=threading.Event)
    """Set when the first such request has come as far as it gets."""

    def fits(self, request: "Request") -> bool:
        is_meant = self.method in ("*", request.method) and self.path in request.path
        return is_meant and self.holds in request.body and self.met < self.times

    def wait(self) -> None:
        """Until it has happened."""
        if not self.happened.wait(PATIENCE_S):
            raise AssertionError(f"nobody ran into {self}")


@dataclass(frozen=True)
class Request:
    """What a client asks."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What it is told."""

    status: int
    headers: dict[str, str]
    body: bytes


class Guard:
    """Stands between the front and the server; this one lets everything through."""

    def refusal(self, request: Request) -> Answer | None:  # noqa: ARG002
        """The answer in the server's place, or None."""
        return None

    def changed(self, request: Request, answer: Answer) -> Answer:  # noqa: ARG002
        """The answer, perhaps with something in it."""
        return answer


class Front:
    """A running proxy; `faults` may be added to and removed at any time."""

    def __init__(self, upstream: str, guard: Guard) -> None:
        self.upstream = upstream
        self.guard = guard
        self.url = ""
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.done = threading.Event()
        self._last: dict[str, Answer] = {}
        self._lock = threading.Lock()

    def add(
        self, method: str, path: str, kind: str, times: int = 1, holds: bytes = b"", **more: Any
    ) -> Fault:
        fault = Fault(method, path, times, kind, holds, **more)
        self.faults.append(fault)
        return fault

    def heal(self) -> None:
        """From now on nothing goes wrong; what hangs gets no answer any more."""
        self.faults.clear()

    def take(self, request: Request) -> Fault | None:
        with self._lock:
            self.requests.append(f"{request.method} {request.path}")
            fault = next((one for one in self.faults if one.fits(request)), None)
            if fault is not None:
                fault.met += 1
            return fault

    def ask(self, request: Request) -> Answer:
        """The server's answer, or that of an ingress whose server is away."""
        refused = self.guard.refusal(request)
        if refused is not None:
            return refused
        address = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE_S)
        try:
            connection.request(request.method, request.path, request.body, request.headers)
            answer = connection.getresponse()
            kept = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP}
            heard = Answer(answer.status, kept, answer.read())
        except (OSError, http.client.HTTPException):
            return made("502")
        finally:
            connection.close()
        heard = self.guard.changed(request, heard)
        self._last[f"{request.method} {request.path}"] = heard
        return heard

    def stale(self, request: Request) -> Answer:
        return self._last.get(f"{request.method} {request.path}") or self.ask(request)


_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


def made(kind: str) -> Answer:
    """The answer of a proxy in the server's place."""
    status, content_type, text = ANSWERS[kind]
    headers = {"Content-Type": content_type}
    if kind == "redirect":
        headers["Location"] = "http://127.0.0.1:1/elsewhere"
    return Answer(status, headers, text.encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    front: Front

    def do_GET(self) -> None:
        request = Request(
            self.command,
            self.path,
            {name: value for name, value in self.headers.items() if name.lower() not in _HOP},
            self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )
        fault = self.front.take(request)
        answer = self._after(fault, request) if fault is not None else self.front.ask(request)
        if answer is None:
            self.close_connection = True
            return
        with suppress(OSError):  # the client may have gone
            self._write(answer, TRICKLE_S if fault is not None and fault.kind == "trickle" else 0)
        if fault is not None and fault.kind == "late":
            self.front.ask(request)
            fault.happened.set()

    do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815 (the names that the library asks for)

    def _after(self, fault: Fault, request: Request) -> Answer | None:
        """The answer for the client, or None if it gets none."""
        front = self.front
        answer: Answer | None = None
        match fault.kind:
            case "unheard" | "silence":
                pass
            case "lost" | "held":
                front.ask(request)
            case "passed":
                answer = front.ask(request)
            case "twice":
                front.ask(request)
                answer = front.ask(request)
            case "late":
                return made("502")
            case "trickle":
                answer = front.ask(request)
            case "stale":
                answer = front.stale(request)
            case kind:
                answer = made(kind)
        if fault.then is not None:
            front.faults.append(fault.then)
        fault.happened.set()
        if fault.kind in ("silence", "held"):
            front.done.wait()
        return answer

    def _write(self, answer: Answer, pause_s: float) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if not pause_s:
            self.wfile.write(answer.body)
        for byte in answer.body if pause_s else b"":
            self.wfile.write(bytes([byte]))
            self.front.done.wait(pause_s)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def http_front(upstream: str, guard: Guard | None = None) -> Iterator[Front]:
    """Start one on a free port of this machine."""
    front = Front(upstream, guard or Guard())
    handler: Callable[..., _Handler] = type("Handler", (_Handler,), {"front": front})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    front.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield front
    finally:
        front.done.set()
        server.shutdown()
        server.server_close()
        thread.join()
