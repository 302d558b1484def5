"""Servers that misbehave: one that takes connections and says nothing, one that hangs up, one that says what it is told."""

import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Silent:
    port: int = 0
    connections: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def silent_server(*, hangs_up=False):
    """It takes every connection and never answers, or hangs up at once; `connections` has each of them."""
    server = Silent()
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]

    def serve():
        while True:
            connection, _ = listener.accept()
            if not server.port:
                return
            server.connections.append(connection)
            if hangs_up:
                connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        port, server.port = server.port, 0
        socket.create_connection(("127.0.0.1", port)).close()
        thread.join()
        for connection in (listener, *server.connections):
            connection.close()


@contextmanager
def http_server(answer):
    """A server whose answers are `answer(method, path)`: a status, what becomes JSON (or text as it is), and headers.

    `answer` may raise `Hang`: then nothing comes.
    """
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, body, *more = answer(self.command, self.path)
            except Hang:
                done.wait()
                return
            text = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            for name, value in more[0].items() if more else ():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815 (the names that the library asks for)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        done.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Hang(Exception):  # noqa: N818 (it says what happens)
    """No answer to this request."""
