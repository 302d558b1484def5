"""What was away while a client was made is not away for it for ever."""

import sqlite3

import botocore.session
import pytest
from pyiceberg.catalog import load_catalog
from sqlalchemy import event
from sqlalchemy.engine import Engine

from isotherm.clients.catalog import open_catalog
from isotherm.clients.first_answers import check_keys


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


def test_a_column_that_may_not_be_added_is_asked_of_a_person(tmp_path):
    """It read as a moment without an answer, for ever."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
    load_catalog("lake", **properties).create_namespace("shop")
    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    asked = {**properties, "schema_version": "v1"}
    only_read = {**asked, "uri": f"sqlite:///file:{tmp_path}/c.db?mode=ro&uri=true"}

    with pytest.raises(
        PermissionError, match=r"no column iceberg_type.*grant ALTER.*leave schema_version out"
    ):
        open_catalog("lake", only_read, 10)
    assert open_catalog("lake", {**only_read, "schema_version": "v0"}, 10).list_tables("shop") == []
    assert open_catalog("lake", asked, 10).list_tables("shop") == []


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
