"""A registry of schemas: a real HTTP server with Confluent's way to ask for one, which answers as it is told to."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class FakeRegistry:
    """Schemas by id; `trouble` is what it does instead of answering."""

    def __init__(self):
        self.schemas, self.asked, self.logins = {}, [], []
        self.subjects, self.levels = {}, {}
        """By name, the ids of a subject's versions; and its level of compatibility, where it is not the global one."""
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

    def register(self, subject, schema, level=None, **more):
        """One version more of a subject; gives the id of its schema."""
        number = self.add(schema, **more)
        self.subjects.setdefault(subject, []).append(number)
        if level is not None:
            self.levels[subject] = level
        return number

    def answer(self, request):
        login = request.headers.get("Authorization", "")
        self.logins.append(base64.b64decode(login.removeprefix("Basic ")).decode())
        self.asked.append(request.path)
        if self.trouble == "silence":
            self._let_go.wait(60)
            return
        if self.trouble is not None:
            status, body = self.trouble
        else:
            status, body = self._found(request.path)
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        if status in {301, 302}:
            request.send_header("Location", "http://169.254.169.254/")
        request.end_headers()
        request.wfile.write(body)

    def _found(self, path):
        """What a registry says that has what it was given."""
        if path.startswith("/apis/registry/v2/ids/globalIds/"):
            unknown = b'{"error_code":404,"name":"VersionNotFoundException"}'
            body = self.contents.get(int(path.rpartition("/")[2]))
            return (404, unknown) if body is None else (200, body)
        _, _, _, _, kind, *more = path.partition("?")[0].split("/")
        match kind, [unquote(one) for one in more]:
            case "schemas", ["ids", number] if int(number) in self.schemas:
                return 200, json.dumps(self.schemas[int(number)]).encode()
            case "schemas", ["ids", _]:
                return 404, b'{"error_code":40403,"message":"Schema not found"}'
            case "subjects", [subject, "versions", "latest"] if subject in self.subjects:
                numbers = self.subjects[subject]
                told = {
                    "subject": subject,
                    "id": numbers[-1],
                    "version": len(numbers),
                    **self.schemas[numbers[-1]],
                }
                return 200, json.dumps(told).encode()
            case "subjects", [_, "versions", "latest"]:
                return 404, b'{"error_code":40401,"message":"Subject not found"}'
            case "config", [subject]:
                assert path.endswith("?defaultToGlobal=true")
                return 200, json.dumps({"compatibilityLevel": self.levels.get(subject, "BACKWARD")}).encode()
        raise AssertionError(path)

    def close(self):
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()
