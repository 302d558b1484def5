"""A registry of schemas: a real HTTP server with Confluent's way to ask for one, which answers as it is told to."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeRegistry:
    """Schemas by id; `trouble` is what it does instead of answering."""

    def __init__(self):
        self.schemas, self.asked, self.logins = {}, [], []
        self.trouble = None
        self.contents = {}
        """Of Apicurio's own API, by global id: what is registered, as it is."""
        self._let_go = threading.Event()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                registry.answer(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/apis/ccompat/v7"

    def add(self, schema, **more):
        """Register a schema; gives its id."""
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        return number

    def answer(self, request):
        login = request.headers.get("Authorization", "")
        self.logins.append(base64.b64decode(login.removeprefix("Basic ")).decode())
        self.asked.append(request.path)
        prefix, _, number = request.path.rpartition("/")
        is_global = prefix == "/apis/registry/v2/ids/globalIds"
        assert is_global or prefix == "/apis/ccompat/v7/schemas/ids"
        if self.trouble == "silence":
            self._let_go.wait(60)
            return
        if self.trouble is not None:
            status, body = self.trouble
        elif is_global:
            unknown = b'{"error_code":404,"name":"VersionNotFoundException"}'
            body = self.contents.get(int(number))
            status, body = (404, unknown) if body is None else (200, body)
        elif int(number) in self.schemas:
            status, body = 200, json.dumps(self.schemas[int(number)]).encode()
        else:
            status, body = 404, b'{"error_code":40403,"message":"Schema not found"}'
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        if status in {301, 302}:
            request.send_header("Location", "http://169.254.169.254/")
        request.end_headers()
        request.wfile.write(body)

    def close(self):
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()
