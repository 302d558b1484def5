"""A remote file: what it costs in requests, and that it is what was written."""

from collections.abc import Iterator
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
def test_a_small_file_is_written_with_two_requests_and_read_with_two(
    store: ObjectStore, content: bytes
) -> None:
    """PyIceberg's client takes five to write it: it looks for a folder of its name, and begins and ends an upload in parts."""
    io = files(store)
    written(io, content)
    assert asked(store) == ["HEAD", "PUT"]
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


KEYS = {"s3.access-key-id": "a", "s3.secret-access-key": "b"}


@pytest.mark.parametrize(
    "asked_for",
    [
        {},
        {"s3.anonymous": "true"},
        KEYS,
        {**KEYS, "s3.session-token": "t", "s3.proxy-uri": "http://u:p@127.0.0.1:3128"},
        {**KEYS, "s3.endpoint": "http://127.0.0.1:9", "s3.force-virtual-addressing": "true"},
        {**KEYS, "s3.request-timeout": "7", "s3.connect-timeout": "3"},
    ],
)
def test_its_client_is_pyicebergs_but_for_that(asked_for: dict[str, str]) -> None:
    asked_for = {**asked_for, "s3.region": "eu-west-1"}
    # Whoever asks for a strategy of their own gets the client that PyIceberg makes.
    other = {"s3.retry-strategy-impl": "pyarrow.fs.AwsDefaultS3RetryStrategy"}
    ours, theirs = (
        RetryingFileIO(properties_with_retries({**asked_for, **more})).fs_by_scheme("s3", BUCKET)
        for more in ({}, other)
    )

    (mine,), (plain,) = ours.__reduce__()[1], theirs.__reduce__()[1]
    assert {**plain, "allow_delayed_open": True} == mine
    assert not plain["allow_delayed_open"]


def test_of_a_role_there_is_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asks for credentials as it is made."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    role = {"s3.role-arn": "arn:aws:iam::1:role/r", "s3.role-session-name": "s", "s3.region": "eu-west-1"}
    io = RetryingFileIO(properties_with_retries(role))

    (options,) = io.fs_by_scheme("s3", BUCKET).__reduce__()[1]
    assert (role["s3.role-arn"], False) == (options["role_arn"], options["allow_delayed_open"])
