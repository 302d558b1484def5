"""An answer of a store that trickles in is given up as a whole, and what is large has time."""

import contextlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from isotherm.clients.remote_file import WHOLE_FILE_BYTES
from isotherm.clients.retries import is_no_answer
from isotherm.clients.storage import RetryingFileIO, properties_with_retries
from isotherm.clients.timeouts import LEAST_BYTES_PER_S, TIMEOUTS, Patience
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.failures import blaming
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.hanging import FIRST_TRIAL_S, MOST
from support.memory_topics import Clock

TIMEOUT_S = 0.5
"""Of a request, without a single byte."""


class Trickles(BaseHTTPRequestHandler):
    """A store with files of one size, of which some bytes come at once; it has no file whose name has `new`."""

    protocol_version = "HTTP/1.1"
    size = at_once = 0
    over: threading.Event

    def log_message(self, *_):
        pass

    def head(self):
        self.send_response(206 if self.headers.get("Range") else 200)
        self.send_header("Content-Length", str(self.size))
        self.send_header("Last-Modified", "Wed, 25 Nov 2026 10:00:00 GMT")
        if self.headers.get("Range"):
            self.send_header("Content-Range", f"bytes 0-{self.size - 1}/{self.size}")
        self.end_headers()

    def do_HEAD(self):
        if "/new" in self.path:
            self.send_error(404)
        else:
            self.head()

    def do_GET(self):
        if "list-type=2" in self.path:
            self.send_error(404)
        else:
            self.trickle()

    def do_DELETE(self):
        self.trickle()

    def do_POST(self):
        self.do_PUT()

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.trickle()

    def trickle(self):
        self.head()
        with contextlib.suppress(OSError):
            self.wfile.write(bytes(self.at_once))
            for _ in range(self.size - self.at_once):
                self.over.wait(0.1)
                self.wfile.write(b"x")
                self.wfile.flush()


@contextmanager
def trickling_store(size, at_once):
    """A store with files of this size, of which the first so many bytes come at once, and then one now and then."""
    over = threading.Event()
    of_this_size = type("OfThisSize", (Trickles,), {"size": size, "at_once": at_once, "over": over})
    server = ThreadingHTTPServer(("127.0.0.1", 0), of_this_size)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield RetryingFileIO(
            properties_with_retries(
                {
                    "s3.endpoint": f"http://127.0.0.1:{server.server_port}",
                    "s3.access-key-id": "a",
                    "s3.secret-access-key": "b",
                    "s3.region": "us-east-1",
                    "s3.request-timeout": str(TIMEOUT_S),
                }
            )
        )
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        serving.join()


def test_a_file_that_trickles_in_is_given_up_as_a_whole_and_the_store_is_left_alone():
    with trickling_store(size=400, at_once=0) as files:
        began_s = monotonic_s()
        with pytest.raises(TimeoutError, match="s3://lake timed out: no whole answer came in 2 s") as raised:
            files.new_input("s3://lake/t/snap-1.avro").open()
        took_s = monotonic_s() - began_s

        assert is_no_answer(raised.value)
        assert took_s < 2 * TIMEOUTS * TIMEOUT_S, "it is not asked for again at once"
        with pytest.raises(OSError, match="it is asked again"):
            files.new_input("s3://lake/t/snap-2.avro").open()


def test_a_delete_whose_answer_trickles_in_is_given_up_as_a_whole():
    with (
        trickling_store(size=400, at_once=0) as files,
        pytest.raises(TimeoutError, match="s3://lake timed out: no whole answer came in 2 s"),
    ):
        files.delete("s3://lake/t/a.parquet")


def test_an_upload_that_trickles_is_given_up_as_a_whole_and_has_time_for_its_size():
    with trickling_store(size=400, at_once=0) as files:
        stream = files.new_output("s3://lake/t/new.avro").create()
        stream.write(bytes(LEAST_BYTES_PER_S))
        with pytest.raises(TimeoutError, match="s3://lake timed out: no whole answer came in 7 s"):
            stream.close()
        assert stream.closed


def test_a_file_that_comes_is_read_whole():
    with (
        trickling_store(size=100_000, at_once=99_999) as files,
        files.new_input("s3://lake/a").open() as stream,
    ):
        assert stream.read() == bytes(99_999) + b"x"


def test_an_answer_has_time_for_its_size():
    hangs, patience = threading.Event(), Patience("s3://lake", timeout_s=0.0)
    with pytest.raises(TimeoutError, match="in 1 s"):
        patience.within(hangs.wait, LEAST_BYTES_PER_S)
    hangs.set()

    assert patience.within(lambda: 7, WHOLE_FILE_BYTES) == 7


def test_what_goes_wrong_in_time_is_what_went_wrong():
    def fail():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        Patience("s3://lake", timeout_s=5).within(fail)


def test_a_store_whose_answers_trickle_in_is_not_blamed_on_the_file():
    hangs = threading.Event()
    with pytest.raises(RefusalError) as raised, blaming("s3://lake/a.parquet"):
        Patience("s3://lake", timeout_s=0.0).within(hangs.wait)
    hangs.set()

    assert raised.value.refusal.reason is Reason.STORAGE


def test_where_many_answers_trickle_in_nothing_is_asked_until_one_is_over():
    hangs, patience = threading.Event(), Patience("s3://lake", timeout_s=0.0)
    for _ in range(MOST):
        with pytest.raises(TimeoutError, match="no whole answer"):
            patience.within(hangs.wait)
    asked = []
    with pytest.raises(TimeoutError, match=f"s3://lake timed out: {MOST} threads hang .* no other is begun"):
        patience.within(lambda: asked.append(1), WHOLE_FILE_BYTES)
    assert asked == []
    hangs.set()
    for one in threading.enumerate():
        if one.name == "isotherm-request":
            one.join(10)

    assert patience.within(lambda: 7, WHOLE_FILE_BYTES) == 7


def test_a_store_whose_requests_hang_for_ever_is_asked_again_when_it_is_back():
    """A connection that died without a word may keep its request until the process ends."""
    hangs, clock = threading.Event(), Clock()
    patience = Patience("hdfs://lake", timeout_s=0.0, clock_s=clock.monotonic_s)
    for _ in range(MOST):
        with pytest.raises(TimeoutError, match="no whole answer"):
            patience.within(hangs.wait)
    clock.advance(FIRST_TRIAL_S)

    assert [patience.within(lambda: 7, WHOLE_FILE_BYTES) for _ in range(100)] == [7] * 100
    hangs.set()
