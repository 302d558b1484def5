"""How many requests a store gets together: PyArrow opens 25 connections, unless it is told otherwise."""

import subprocess
import sys

from isotherm.clients.storage import REQUESTS_AT_ONCE

# In a process of its own: PyArrow takes the number when it opens its first store.
PROCESS = """
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.pool import ThreadPool

from isotherm.iceberg.catalog import connect
from isotherm.clients.storage import REQUESTS_AT_ONCE, RetryingFileIO
from isotherm.runtime.config import CatalogConfig

met = threading.Barrier(REQUESTS_AT_ONCE, timeout=20)


class Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        try:
            if not self.path.endswith("first"):
                met.wait()  # nobody is answered before all have asked
        except threading.BrokenBarrierError:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 256


server = Server(("127.0.0.1", 0), Store)
threading.Thread(target=server.serve_forever, daemon=True).start()
connect(CatalogConfig(properties={"type": "sql", "uri": "sqlite://", "warehouse": "file:///nowhere"}))
files = RetryingFileIO({
    "s3.endpoint": f"http://127.0.0.1:{server.server_port}", "s3.region": "us-east-1",
    "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.request-timeout": "30",
})
len(files.new_input("s3://bucket/first"))
with ThreadPool(REQUESTS_AT_ONCE) as pool:
    sizes = pool.map(lambda number: len(files.new_input(f"s3://bucket/{number}")), range(REQUESTS_AT_ONCE))
print(len(sizes))
"""


def test_a_store_gets_all_requests_that_may_be_under_way_together():
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], capture_output=True, check=False, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(REQUESTS_AT_ONCE)), done.stderr
