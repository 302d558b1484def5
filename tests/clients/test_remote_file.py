"""A remote file: what it costs in requests, and that it is what was written."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from isotherm.clients.remote_file import WHOLE_FILE_BYTES
from isotherm.clients.storage import RetryingFileIO, properties_with_retries
from support.object_store import BUCKET, Fault, ObjectStore, object_store

SMALL, LARGE = b"rows" * 100, bytes(range(256)) * (3 * WHOLE_FILE_BYTES // 256)
A = f"s3://{BUCKET}/a"


@pytest.fixture(scope="module")
def running() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def store(running: ObjectStore) -> ObjectStore:
    for one in running.objects():
        running.client().delete_object(Bucket=BUCKET, Key=one)
    running.faults.clear()
    running.requests.clear()
    return running


def files(store: ObjectStore, **more: str) -> RetryingFileIO:
    return RetryingFileIO(properties_with_retries({**store.properties(), **more}))


def asked(store: ObjectStore) -> list[str]:
    found = [one.partition(" ")[0] for one in store.requests]
    store.requests.clear()
    return found


def written(io: RetryingFileIO, content: bytes, location: str = A) -> None:
    with io.new_output(location).create() as stream:
        stream.write(content)


def read(io: RetryingFileIO, location: str = A) -> Any:
    with io.new_input(location).open() as stream:
        return stream.read()


@pytest.mark.parametrize("content", [b"", SMALL])
def test_a_small_file_is_looked_for_with_one_request_and_read_with_two(
    store: ObjectStore, content: bytes
) -> None:
    """Of what is not there PyArrow looks for a folder of its name, too. To ask for the size before it is opened takes one more."""
    io = files(store)
    written(io, content)
    assert asked(store) == ["HEAD", "POST", "PUT", "POST"]
    assert read(io) == content
    assert asked(store) == ["HEAD", "GET"][: 2 if content else 1]


def test_a_large_file_goes_up_in_parts_and_is_opened_once(store: ObjectStore) -> None:
    io = files(store)
    written(io, LARGE)
    assert [one for one in asked(store) if one != "PUT"] == ["HEAD", "POST", "POST"]
    with io.new_input(A).open() as stream:
        stream.seek(len(LARGE) - 5)
        assert stream.read() == LARGE[-5:]
    assert asked(store) == ["HEAD", "GET"]
    assert read(io) == LARGE


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_what_was_opened_is_opened_again_where_reading_fails(store: ObjectStore, content: bytes) -> None:
    io = files(store)
    written(io, content)
    store.faults.append(Fault("GET", "/a", 2))

    assert read(io) == content
    assert not store.unmet()


@pytest.mark.parametrize("content", [SMALL, LARGE])
@pytest.mark.parametrize("fault", [Fault("POST", "/a?uploads", 1, "403"), Fault("PUT", "/a", 1, "403")])
def test_an_upload_that_is_refused_leaves_no_half(store: ObjectStore, content: bytes, fault: Fault) -> None:
    """A client that begins an upload late completes what it has when it is closed after that."""
    store.faults.append(replace(fault))
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        written(files(store), content)

    assert not store.unmet()
    assert store.objects() == []


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_a_file_is_not_written_over_another(store: ObjectStore, content: bytes) -> None:
    io = files(store)
    written(io, SMALL)
    store.requests.clear()

    with pytest.raises(FileExistsError, match="already exists"):
        written(io, content)
    assert asked(store) == ["HEAD"]
    assert read(io) == SMALL


def test_below_what_lies_in_a_folder_of_its_name_it_is_written_all_the_same(store: ObjectStore) -> None:
    """A store has no folders."""
    io = files(store)
    written(io, SMALL, f"{A}/below")
    written(io, b"above")

    assert (read(io), read(io, f"{A}/below")) == (b"above", SMALL)


def test_an_exception_while_it_is_written_sends_nothing(store: ObjectStore) -> None:
    io = files(store)
    stream = io.new_output(A).create()
    stream.write(SMALL)
    stream.__exit__(KeyError, KeyError(), None)

    assert asked(store) == ["HEAD"]
    assert store.objects() == []
