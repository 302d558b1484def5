"""An S3 that misbehaves on order: moto behind a layer that answers 503, or not at all."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "lake"
PATIENCE_S = 180
SKEWED = (
    b"<Error><Code>RequestTimeTooSkewed</Code>"
    b"<Message>The difference between the request time and the current time is too large.</Message></Error>"
)
"""What S3 answers where a request is signed with a time that is a quarter of an hour away from its own."""


@dataclass
class Fault:
    """What happens to the next `times` requests of a method (or any: `*`) whose path (with its query) contains something."""

    method: str
    path: str
    times: int
    kind: str = "503"
    """`503`; `403`; `skewed`: a 403 because our clock differs from the store's; `silence`: the request is taken and never
    answered; `held`: it is done and never answered."""
    key: str = ""
    """The access key whose requests are meant, or empty for all requests."""
    met: int = 0
    happened: threading.Event = field(default_factory=threading.Event)
    """Set when the first such request has come as far as it gets."""

    def wait(self) -> None:
        """Until it has happened."""
        if not self.happened.wait(PATIENCE_S):
            raise AssertionError(f"nobody ran into {self}")

    def fits(self, method: str, path: str, key: str) -> bool:
        is_meant = self.method in ("*", method) and self.path in path and self.key in ("", key)
        return is_meant and self.met < self.times


@dataclass
class ObjectStore:
    """A running store; `faults` may be added to at any time."""

    endpoint: str
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    """Of the objects that were asked for."""
    delay_s: float = 0.0
    """How long each answer takes beside its work."""
    refused_keys: set[str] = field(default_factory=set)
    """Access keys that are not good any more."""

    def properties(self) -> dict[str, str]:
        """For PyIceberg; path-style, as every store that is not Amazon's wants it."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
            "s3.force-virtual-addressing": "false",
            "s3.connect-timeout": "2",
            "s3.request-timeout": "1",
        }

    def lake(self, root: Path) -> dict[str, str]:
        """For PyIceberg: a catalog in a file of this folder, and its tables in this store."""
        return {
            **self.properties(),
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"s3://{BUCKET}/{root.name}",
        }

    def client(self) -> Any:
        """A plain client, to look from outside."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 (moto takes any)
            region_name="us-east-1",
        )

    def objects(self) -> list[str]:
        """Every object in the bucket."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def unmet(self) -> list[Fault]:
        """Faults that nobody ran into, in full: a test that rests on them proves nothing."""
        return [fault for fault in self.faults if fault.met < fault.times]


class _Quiet(WSGIRequestHandler):
    def log_request(self, *_: object) -> None:
        """A line for each request would hide what a failed test has to say."""


def _access_key(environ: dict[str, Any]) -> str:
    """The key id with which a request is signed; empty without one."""
    found = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    return found[1] if found else ""


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start it on a free port of this machine."""
    inner = DomainDispatcherApplication(create_backend_app)
    store = ObjectStore("")
    done, lock = threading.Event(), threading.Lock()

    def outer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        key = _access_key(environ)
        with lock:
            store.requests.append(f"{method} {path}")
            whole = f"{path}?{environ['QUERY_STRING']}" if environ.get("QUERY_STRING") else path
            fault = next((one for one in store.faults if one.fits(method, whole, key)), None)
            if fault is not None:
                fault.met += 1
        expired = key in store.refused_keys
        if fault is None and not expired:
            time.sleep(store.delay_s)
            answer = list(inner(environ, start_response))
            with lock:
                store.sent_bytes += sum(map(len, answer))
            return answer
        if fault is not None and fault.kind == "held":
            list(inner(environ, lambda *_: None))
        if fault is not None:
            fault.happened.set()
        if fault is not None and fault.kind in ("silence", "held"):
            done.wait()
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if fault is not None and fault.kind == "skewed":
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [SKEWED]
        if expired or fault.kind == "403":
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>The token has expired.</Message></Error>"]
        start_response("503 Slow Down", [("Content-Type", "application/xml")])
        return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]

    server = make_server("127.0.0.1", 0, outer, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    store.client().create_bucket(Bucket=BUCKET)
    try:
        yield store
    finally:
        done.set()
        server.shutdown()
        thread.join()
        server.server_close()
