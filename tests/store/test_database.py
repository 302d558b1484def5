"""Transactions of both stores: all or nothing, and the reason why not."""

import sqlite3

import pytest

from isotherm.store.database import RowError, StoreTrouble, connect, transaction

THINGS = (
    "CREATE TABLE things (name TEXT PRIMARY KEY)",
    "CREATE TABLE more (name REFERENCES things DEFERRABLE INITIALLY DEFERRED)",
)


@pytest.fixture
def connection(tmp_path):
    connection = connect(tmp_path / "things.db", THINGS)
    yield connection
    connection.close()


def names(connection):
    return [name for (name,) in connection.execute("SELECT name FROM things ORDER BY name")]


def save(connection, *names, table="things"):
    with transaction(connection):
        for name in names:
            connection.execute(f"INSERT INTO {table} VALUES (?)", (name,))


def test_a_full_disk_is_told_as_a_full_disk_and_nothing_is_saved(connection):
    save(connection, "before")
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")

    with pytest.raises(sqlite3.OperationalError, match="database or disk is full"):
        save(connection, "small", "x" * 1_000_000)
    assert not connection.in_transaction
    assert names(connection) == ["before"]

    connection.execute(f"PRAGMA max_page_count={pages + 1000}")
    save(connection, "after")
    assert names(connection) == ["after", "before"]


def test_a_commit_that_fails_leaves_no_transaction_open_into_which_the_next_one_would_be_written(connection):
    connection.execute("PRAGMA foreign_keys=ON")
    with pytest.raises(RowError, match="FOREIGN KEY"):
        save(connection, "of nothing", table="more")
    assert not connection.in_transaction

    save(connection, "kept")
    connection.rollback()
    assert names(connection) == ["kept"]


def save_many(connection, *names):
    with transaction(connection):
        connection.executemany("INSERT INTO things VALUES (?)", [(name,) for name in names])


@pytest.mark.parametrize("value", ["x" * 1001, 2**63], ids=["a text", "a number"])
@pytest.mark.parametrize("write", [save, save_many], ids=["one row after another", "many rows"])
def test_a_value_that_fits_into_no_row_is_no_trouble_of_the_store(connection, write, value):
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    with pytest.raises(RowError, match="too"):
        write(connection, "before", value)
    assert not connection.in_transaction
    assert not isinstance(RowError(), StoreTrouble)
    assert names(connection) == []

    save(connection, "after")
    assert names(connection) == ["after"]


@pytest.mark.parametrize(
    "question",
    [
        f"SELECT SUM(value) FROM (SELECT {2**63 - 1} AS value UNION ALL SELECT 1)",
        "SELECT json_extract('{', '$.a')",
    ],
    ids=["a sum", "a text that is no JSON"],
)
def test_rows_that_cannot_be_reckoned_with_are_no_trouble_of_the_store(connection, question):
    with pytest.raises(RowError, match="cannot be reckoned with"):
        connection.execute(question).fetchall()


def test_a_mistake_of_ours_stays_one(connection):
    with pytest.raises(StoreTrouble, match="no such table"):
        connection.execute("SELECT * FROM others")
