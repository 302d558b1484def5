"""What is written and deleted lies where its location says, whatever the table's owner has chosen."""

import os

import pytest

from isotherm.clients.listing import files_below
from isotherm.clients.local_files import NoRegularFileError, opened
from isotherm.clients.metadata_ends import ends_of
from isotherm.clients.one_attempt import GCS_TRIES_FOR
from isotherm.clients.retries import is_no_answer, is_transient
from isotherm.clients.storage import (
    RetryingFileIO,
    UnsafeLocationError,
    properties_with_retries,
)
from support.lab import Lab, uuid_of
from support.object_store import BUCKET, Fault, object_store


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim.parquet"
    path.write_bytes(b"rows")
    yield path
    assert path.read_bytes() == b"rows"


@pytest.mark.parametrize("tail", ["#", "#/metadata/a", "?", "?x=y", "/../victim.parquet", "/./a", "//a"])
def test_nothing_is_written_or_deleted_where_a_location_may_mean_another_file(victim, tail):
    io = RetryingFileIO()

    with pytest.raises(UnsafeLocationError):
        io.new_output(f"file://{victim}{tail}")
    with pytest.raises(UnsafeLocationError):
        io.delete(f"file://{victim}{tail}")


@pytest.fixture(params=["pipe", "device", "folder"])
def no_file(request, tmp_path):
    """What is no file; the pipe has a writer, so that who opens it all the same does not wait for ever."""
    path = tmp_path / "snap-1.avro"
    match request.param:
        case "pipe":
            os.mkfifo(path)
            writer = os.open(path, os.O_RDWR)
            yield path
            os.close(writer)
        case "device":
            path.symlink_to("/dev/zero")
            yield path
        case "folder":
            path.mkdir()
            yield path


def test_what_is_no_file_is_not_opened(no_file):
    io = RetryingFileIO()

    for read in (
        io.new_input(str(no_file)).open,
        lambda: ends_of(io, f"file://{no_file}"),
        lambda: opened(str(no_file)),
    ):
        with pytest.raises(NoRegularFileError, match=f"{no_file} is not opened"):
            read()
    assert [file for some in files_below(io, f"{no_file.parent}/") for file in some] == []


@pytest.mark.parametrize("overwrite", [True, False])
def test_no_file_is_written_over_another_one(victim, overwrite):
    with pytest.raises(FileExistsError):
        RetryingFileIO().new_output(f"file://{victim}").create(overwrite=overwrite)


def test_a_table_whose_files_would_lie_elsewhere_is_not_compacted_and_says_why(tmp_path):
    lab = Lab(tmp_path)
    victim = lab.create("shop.victim")
    lab.append(victim, 1)
    (task,) = victim.scan().plan_files()
    evil = lab.create("shop.evil")
    for hour in (1, 1, 1, 1, 9, 9):
        lab.append(evil, hour)
    with evil.refresh().transaction() as change:
        change.set_properties({"write.data.path": f"{task.file.file_path}#"})
    service = lab.service()
    service.start()
    for _ in range(6):
        service.step(0)

    assert len(victim.refresh().scan().to_arrow()) == 2
    (quarantine,) = service.ledger.quarantined(uuid_of(evil)).values()
    assert "write.data.path" in quarantine.why
    service.stop()


GCS = "google::cloud::Status(UNAVAILABLE: Retry policy exhausted, with a last message of "
S3 = "When getting information for key 'w/timed out/503/a.avro' in bucket 'lake': AWS Error "


@pytest.mark.parametrize(
    ("err", "passes", "is_silence"),
    [
        (OSError(f"{S3}NETWORK_CONNECTION during HeadObject operation: curlCode: 7"), True, True),
        (
            OSError(f"{S3}UNKNOWN (HTTP status 503) during HeadObject operation: No response body."),
            True,
            False,
        ),
        (
            OSError(f"{S3}NETWORK_CONNECTION during HeadObject operation: curlCode: 27, Out of memory"),
            False,
            False,
        ),
        (OSError(f"{GCS}PerformWork() - CURL error [27]=Out of memory"), False, False),
        (OSError(24, "Too many open files", "/w/timed out/x"), False, False),
        (OSError(f"{S3}SLOW_DOWN during PutObject operation: Please slow down"), True, False),
        (OSError(f"{S3}ACCESS_DENIED during HeadObject operation: No response body."), False, False),
        (OSError(f"{S3}ACCESS_DENIED during HeadObject operation".replace("w/", "it's w/")), False, False),
        (OSError("GetProperties for 'https://a/timeouts/x' failed. Azure Error: 403"), False, False),
        (OSError("GetProperties for 'https://a/late/x' failed. Azure Error: it timed out"), True, True),
        (OSError("Writing '/w/x': Connection reset by peer"), True, True),
        (FileNotFoundError("Cannot get file info, file not found: s3://lake/timeouts/x"), False, False),
        (PermissionError(13, "Permission denied", "/w/timed out/x"), False, False),
        (OSError(f"{GCS}Received HTTP status code: 503 error_info="), True, False),
        (OSError(f"{GCS}PerformWork() - CURL error [28]=Timeout was reached"), True, True),
        (OSError("google::cloud::Status(DATA_LOSS: UNAVAILABLE: 503)"), False, False),
        (OSError(28, "No space left on device", "/w/timed out/x"), False, False),
        (OSError(113, "No route to host"), True, True),
        (TimeoutError("late"), True, True),
        (ConnectionResetError(104, "reset"), True, True),
        (ValueError("timed out"), False, False),
    ],
    ids=lambda value: str(value)[-40:] if isinstance(value, Exception) else "",
)
def test_an_answer_is_no_silence_whatever_the_file_is_called(err, passes, is_silence):
    assert (is_transient(err), is_no_answer(err)) == (passes, is_silence)


def test_googles_client_does_not_try_for_minutes_below_our_own_attempts():
    io = RetryingFileIO(properties_with_retries({"gcs.service.host": "http://127.0.0.1:9"}))

    _, (options,) = io.fs_by_scheme("gs", "lake").__reduce__()
    assert (options["retry_time_limit"], options["endpoint_override"]) == (GCS_TRIES_FOR, "127.0.0.1:9")


def test_a_refusal_under_a_name_that_sounds_like_silence_keeps_no_neighbour_waiting():
    with object_store() as store:
        io = RetryingFileIO(store.properties())
        mine, other = f"s3://{BUCKET}/w/timeouts/f.avro", f"s3://{BUCKET}/w/orders/f.avro"
        for location in (mine, other):
            with io.new_output(location).create() as file:
                file.write(b"x")
        store.faults.append(Fault("*", "timeouts", 10**6, "403"))
        store.requests.clear()

        with pytest.raises(OSError, match="ACCESS_DENIED"):
            io.new_input(mine).open()
        asked = len(store.requests)
        with io.new_input(other).open() as file:
            assert file.read() == b"x"
        assert asked <= 2, "an answer is not asked for again"
