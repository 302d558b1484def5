"""What lies in a folder of a store is listed in pieces where a store does not give all of it in time."""

import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from isotherm.clients.listing import files_below
from isotherm.clients.storage import RetryingFileIO, properties_with_retries

NAMES = ("lake/t/a", "lake/t/x/b", "lake/t/x/y/c", "lake/t/x/y/d", "lake/t/z/e")


@contextmanager
def store_where(is_slow):
    """An S3 with some files, which begins and never ends to answer some questions for lists."""
    over, asked = threading.Event(), []

    class Lists(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            query = parse_qs(urlsplit(self.path).query)
            prefix, is_deep = query["prefix"][0], "delimiter" not in query
            if (prefix, is_deep) not in asked[
                -1:
            ]:  # a busy machine may take longer than the time-out, and ask again
                asked.append((prefix, is_deep))
            self.send_response(200)
            if is_slow(prefix, is_deep):
                self.send_header("Content-Length", "100000")
                self.end_headers()
                self.close_connection = True
                with suppress(OSError):
                    while not over.wait(0.02):
                        self.wfile.write(b" ")
                return
            body = listed(prefix, is_deep)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    properties = {
        "s3.endpoint": f"http://127.0.0.1:{server.server_port}",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.region": "us-east-1",
        "s3.request-timeout": "0.05",
    }
    try:
        yield RetryingFileIO(properties_with_retries(properties)), asked
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        serving.join()


def listed(prefix, is_deep):
    """An answer of S3: the files with this prefix, those of deeper folders as folders."""
    below = [name.removeprefix("lake/") for name in NAMES]
    below = [name for name in below if name.startswith(prefix)]
    files = [name for name in below if is_deep or "/" not in name.removeprefix(prefix)]
    folders = {prefix + name.removeprefix(prefix).split("/")[0] + "/" for name in set(below) - set(files)}
    entries = [
        f"<Contents><Key>{name}</Key><Size>1</Size><LastModified>2026-11-25T10:00:00Z</LastModified></Contents>"
        for name in files
    ]
    entries += [f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in sorted(folders)]
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(entries)}</ListBucketResult>".encode()


def names(io):
    return sorted(file.name for some in files_below(io, "s3://lake/t/") for file in some)


def test_a_folder_is_listed_with_one_request_for_each_of_its_own():
    with store_where(lambda *_: False) as (io, asked):
        assert names(io) == ["a", "x/b", "x/y/c", "x/y/d", "z/e"]
    assert asked == [("t/", False), ("t/x/", True), ("t/z/", True)]


def test_a_folder_that_does_not_come_whole_in_time_is_listed_folder_by_folder_and_the_store_is_not_left_alone():
    with store_where(lambda prefix, is_deep: is_deep and prefix == "t/x/") as (io, asked):
        assert names(io) == ["a", "x/b", "x/y/c", "x/y/d", "z/e"]
    assert asked[1:] == [("t/x/", True), ("t/x/", False), ("t/x/y/", True), ("t/z/", True)]


def test_a_list_of_one_folder_that_trickles_in_is_given_up():
    with (
        store_where(lambda prefix, _: prefix == "t/x/") as (io, _),
        pytest.raises(TimeoutError, match="s3://lake timed out: what lies right in lake/t/x did not come"),
    ):
        names(io)
