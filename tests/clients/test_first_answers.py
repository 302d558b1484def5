"""What was away while a client was made is not away for it for ever."""

import sqlite3
from uuid import uuid4

import botocore.session
import pyarrow.fs
import pytest
from pyiceberg.catalog import load_catalog
from sqlalchemy import event
from sqlalchemy.engine import Engine

from isotherm.clients.catalog import open_catalog
from isotherm.clients.first_answers import check_keys, check_region
from isotherm.clients.storage import RetryingFileIO


@pytest.fixture
def lost_once():
    """The first connection to a database is lost."""
    left = [1]

    def lost(*_):
        if left:
            left.pop()
            raise sqlite3.OperationalError("server closed the connection unexpectedly")

    yield lambda: event.listen(Engine, "do_connect", lost)
    event.remove(Engine, "do_connect", lost)


def test_a_database_that_is_away_for_a_moment_is_not_taken_for_another_kind(tmp_path, lost_once):
    """Of a database that others have made it then asked for a column that is not there, for as long as it ran."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
    load_catalog("lake", **properties).create_namespace("shop")
    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    assert open_catalog("lake", properties, 10).list_tables("shop") == []

    lost_once()
    with pytest.raises(ConnectionError, match="no answer for a moment"):
        open_catalog("lake", properties, 10)
    assert open_catalog("lake", properties, 10).list_tables("shop") == []


def test_a_session_without_keys_is_none(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    session = botocore.session.Session()
    with pytest.raises(ConnectionError, match="no keys for AWS"):
        check_keys(session)

    session.set_credentials("key", "secret")
    check_keys(session)


@pytest.fixture
def regions(monkeypatch):
    """S3, which tells no region at first."""
    told = []

    def resolve(bucket):
        told.append(bucket)
        if len(told) == 1:
            raise OSError("When resolving region: curlCode 6")
        return "eu-central-1"

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pyarrow.fs, "resolve_s3_region", resolve)
    return told


def test_a_bucket_whose_region_is_not_told_now_is_asked_for_again(regions):
    """All that was sent to it was signed for another region, until the process ended."""
    files = RetryingFileIO({"s3.access-key-id": "key", "s3.secret-access-key": "secret"})
    bucket = f"lake-{uuid4()}"  # what was told of one is kept by the process
    with pytest.raises(OSError, match=f"the region of bucket {bucket} cannot be found out now"):
        files.fs_by_scheme("s3", bucket)

    assert files.fs_by_scheme("s3", bucket).region == "eu-central-1"
    assert regions == [bucket, bucket]


@pytest.mark.parametrize(
    "said", [{"s3.region": "us-east-1"}, {"client.region": "a"}, {"s3.endpoint": "http://a"}]
)
def test_where_somebody_says_it_nobody_is_asked(regions, said):
    check_region(said, "lake")

    assert regions == []
