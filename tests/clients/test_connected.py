"""However many tables have keys of their own, few of their clients hold connections."""

import gc
import weakref

import psutil

from isotherm.clients.connected import MOST_CONNECTED, Connected
from isotherm.clients.storage import RetryingFileIO, properties_with_retries
from support.object_store import BUCKET, object_store

DESCRIPTORS = 3
"""Of a client, at most."""


def is_connected(files):
    return files.fs_by_scheme.cache_info().currsize > 0


def test_tables_with_keys_of_their_own_do_not_each_hold_connections_for_good():
    with object_store() as store:
        for number in range(2):
            store.client().put_object(Bucket=BUCKET, Key=f"w/{number}", Body=b"x")
        process = psutil.Process()
        before = process.num_fds()
        clients = [
            RetryingFileIO(
                properties_with_retries({**store.properties(), "s3.access-key-id": f"key{number}"})
            )
            for number in range(3 * MOST_CONNECTED)
        ]
        for files in clients:
            assert files.new_input(f"s3://{BUCKET}/w/0").open().read() == b"x"

        assert process.num_fds() - before <= DESCRIPTORS * MOST_CONNECTED
        assert [is_connected(files) for files in clients].count(True) == MOST_CONNECTED
        assert clients[0].new_input(f"s3://{BUCKET}/w/1").open().read() == b"x", "it connects again"


def test_the_client_that_was_used_longest_ago_lets_go():
    connected = Connected(2)
    one, two, three = clients = [RetryingFileIO() for _ in range(3)]
    for files in clients:
        files.fs_by_scheme("file", "")
    for files in (one, two, one, three):
        connected.use(files)

    assert [is_connected(files) for files in clients] == [True, False, True]


def test_a_client_that_nobody_has_any_more_is_not_kept():
    connected, files = Connected(), RetryingFileIO()
    connected.use(files)
    kept = weakref.ref(files)
    del files
    gc.collect()

    assert kept() is None
