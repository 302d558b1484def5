"""How both stores open SQLite, and turn values into JSON and back."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

Value = TypeVar("Value")

BUSY_TIMEOUT_S = 10
"""A reader beside the daemon may hold it up for so long at most."""


class StoreError(Exception):
    """The file is not a store of ours, is corrupt, or comes from a newer version."""


def connect(path: Path | None, schema: str, version: int, *, read_only: bool = False) -> sqlite3.Connection:
    """An open store; None as path: in memory.

    Raises:
        StoreError: the file is corrupt, or of another version than `version`.
    """
    try:
        if path is None:
            connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        elif read_only:
            connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                path, isolation_level=None, timeout=BUSY_TIMEOUT_S, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, version):
            raise StoreError(f"{path} has version {found}, this program knows {version}")
        if not read_only:
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise StoreError(f"{path} is corrupt")
            connection.executescript(schema)
            connection.execute(f"PRAGMA user_version={version}")
    except sqlite3.DatabaseError as err:
        raise StoreError(f"{path}: {err}") from err
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; one inside another is part of the outer one."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def to_json(value: object) -> str:
    """A value of ours as JSON; its type must be the one that it is read back as."""
    kind: Any = type(value)
    return _adapter(kind).dump_json(value).decode()


def from_json(kind: type[Value], text: str) -> Value:
    """A value of ours from JSON."""
    hashable: Any = kind
    value: Value = _adapter(hashable).validate_json(text)
    return value
