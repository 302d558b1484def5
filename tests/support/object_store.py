"""An S3 that misbehaves on order: moto behind a layer that answers 503, or not at all."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "lake"


@dataclass
class Fault:
    """What happens to the next `times` requests of a method whose path contains something."""

    method: str
    path: str
    times: int
    kind: str = "503"
    """`503`; `403`; or `silence`: the request is taken and never answered."""
    met: int = 0


@dataclass
class ObjectStore:
    """A running store; `faults` may be added to at any time."""

    endpoint: str
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

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


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start it on a free port of this machine."""
    inner = DomainDispatcherApplication(create_backend_app)
    store = ObjectStore("")
    done, lock = threading.Event(), threading.Lock()

    def outer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with lock:
            store.requests.append(f"{method} {path}")
            fault = next(
                (
                    one
                    for one in store.faults
                    if one.method == method and one.path in path and one.met < one.times
                ),
                None,
            )
            if fault is not None:
                fault.met += 1
        if fault is None:
            return inner(environ, start_response)
        if fault.kind == "silence":
            done.wait()
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if fault.kind == "403":
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>The token has expired.</Message></Error>"]
        start_response("503 Slow Down", [("Content-Type", "application/xml")])
        return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]

    server = make_server("127.0.0.1", 0, outer, threaded=True)
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
