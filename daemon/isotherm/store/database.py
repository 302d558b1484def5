"""How both stores open SQLite, and turn values into JSON and back."""

import os
import sqlite3
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

Value = TypeVar("Value")

BUSY_TIMEOUT_S = 10
"""A reader beside the daemon may hold it up for so long at most."""


StoreTrouble = sqlite3.Error
"""Whatever goes wrong with a store itself: without its stores the daemon does not know what it does."""
StoreBusy = sqlite3.OperationalError
"""A store that is locked, or a disk that is full: it may be another one in a moment."""


class RowError(ValueError):
    """A value fits into no row, or beside no other, or cannot be reckoned with. The store is well: this is the trouble of
    whatever the value belongs to.
    """


_OF_ROWS = ("integer overflow", "malformed JSON")
"""What SQLite says of values under the code that it has for any mistake (1); other codes are about the store."""


_NO_UTF_8 = "Could not decode to UTF-8"
"""What Python says of a text that was damaged, under no code of SQLite's. SQLite itself finds nothing wrong with it."""


class StoreError(Exception):
    """The file is not a store of ours, is corrupt, or comes from another version; or it cannot be opened now."""

    def __init__(self, why: str, path: Path | None = None) -> None:
        super().__init__(why)
        self._path = path

    @property
    def may_pass(self) -> bool:
        """Whether it may be another one in a moment; a missing right, as after root has put back a copy, is for a person."""
        return isinstance(self.__cause__, StoreBusy) and (self._path is None or _is_ours(self._path))


class DamagedError(StoreError):
    """The file is corrupt, or none of SQLite's."""


def is_damage(error: BaseException | None) -> bool:
    """Whether it was said that a store is damaged, however many errors came after that.

    A key or a name that is no UTF-8 is damage too. Values of ours are read as bytes (`from_row`): theirs is the trouble
    of their row alone.
    """
    while error is not None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # above are its details
        is_said = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or str(error).startswith(_NO_UTF_8)
        if isinstance(error, sqlite3.Error) and is_said:
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_ours(path: Path) -> bool:
    """Whether a store is there that this user may write, or none is."""
    return not path.exists() or (path.is_file() and os.access(path, os.R_OK | os.W_OK))


class _Connection(sqlite3.Connection):
    """A connection that tells the trouble of some rows from that of the store."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """One statement. Raises RowError, or StoreTrouble."""
        try:
            return super().execute(sql, parameters)
        except _MAY_BE_OF_ROWS as err:
            if (why := _of_rows(err)) is None:
                raise
            raise RowError(why) from err

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """One statement for each row. Raises RowError, or StoreTrouble."""
        try:
            return super().executemany(sql, parameters)
        except _MAY_BE_OF_ROWS as err:
            if (why := _of_rows(err)) is None:
                raise
            raise RowError(why) from err


_MAY_BE_OF_ROWS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.OperationalError, OverflowError)
"""Caught in place and not by a context manager: each event asks dozens of questions."""


def _of_rows(err: Exception) -> str | None:
    """What is wrong with some rows, or None where it is the store's trouble."""
    if not isinstance(err, sqlite3.OperationalError):
        return f"a value fits into no row of a store: {err}"
    if str(err) not in _OF_ROWS:
        return None
    return f"rows of a store cannot be reckoned with: {err}"


def connect(
    path: Path | None,
    versions: Sequence[str],
    oldest: int = 1,
    *,
    read_only: bool = False,
    is_durable: bool = False,
    is_suspect: bool = False,
    values: Collection[str] = (),
) -> sqlite3.Connection:
    """An open store, brought up to the newest version; None as path: in memory.

    Args:
        path: the file.
        versions: SQL that makes the oldest version that we can begin with, then each next one out of the one before.
        oldest: the number of the first of them.
        read_only: look beside a daemon that may be running; nothing is made or changed.
        is_durable: what was committed survives a power cut. It costs a sync of the disk for each transaction.
        is_suspect: compare its indexes with its tables too, and read every text (`check`).
        values: columns that are the trouble of their row alone where they are damaged: `holds.value`.

    Raises:
        StoreError: the file is corrupt, of a newer version than we know, or of an older one than we can begin with.
    """
    connection: sqlite3.Connection | None = None
    try:
        connection = _open(path, read_only=read_only)
        if not read_only:
            # Before the first table is made, else it has no effect: what was deleted gives its room back.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            # In WAL mode NORMAL loses the newest transactions when the machine stops: good enough for a cache.
            connection.execute(f"PRAGMA synchronous={'FULL' if is_durable else 'NORMAL'}")
            connection.execute(f"PRAGMA fullfsync={int(is_durable)}")
            connection.execute(f"PRAGMA checkpoint_fullfsync={int(is_durable)}")
        _bring_up(
            connection, path, versions, oldest, read_only=read_only, is_suspect=is_suspect, values=values
        )
    except (sqlite3.DatabaseError, StoreError) as err:
        if connection is not None:
            connection.close()
        if isinstance(err, StoreError):
            raise
        kind = DamagedError if is_damage(err) else StoreError
        raise kind(f"{path}: {err}", path) from err
    return connection


def open_as_it_is(path: Path) -> sqlite3.Connection:
    """A store to which nothing was done yet, of whatever version, sound or not. Raises sqlite3.Error."""
    return _open(path, read_only=False)


def _open(path: Path | None, *, read_only: bool) -> sqlite3.Connection:
    if path is None:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=_Connection)
    if read_only:
        if not path.exists():
            raise StoreError(
                f"{path} is not there: no daemon has run with this state.path yet (`isotherm run` makes it)"
            )
        return sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            timeout=BUSY_TIMEOUT_S,
            factory=_Connection,
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return sqlite3.connect(
        path, isolation_level=None, timeout=BUSY_TIMEOUT_S, check_same_thread=False, factory=_Connection
    )


def _bring_up(
    connection: sqlite3.Connection,
    path: Path | None,
    versions: Sequence[str],
    oldest: int,
    *,
    read_only: bool,
    is_suspect: bool,
    values: Collection[str],
) -> None:
    """Make it the newest version, step by step."""
    newest = oldest + len(versions) - 1
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > newest:
        raise StoreError(f"{path} has version {found}, this program knows {newest}: a newer one wrote it")
    if 0 < found < oldest or (read_only and found < newest):
        raise StoreError(f"{path} has version {found}, this program needs {newest}; the daemon brings it up")
    if read_only:
        return
    check(connection, path, thoroughly=is_suspect, values=values)
    first = 0 if found == 0 else found - oldest + 1
    for number, sql in enumerate(versions[first:], start=oldest + first):
        # Each step as a whole or not at all: a crash leaves a file of the version before.
        connection.executescript(f"BEGIN IMMEDIATE;\n{sql};\nPRAGMA user_version={number};\nCOMMIT;")


def check(
    connection: sqlite3.Connection, path: Path | None, *, thoroughly: bool, values: Collection[str] = ()
) -> None:
    """Look through a whole store: are its pages sound?

    Only a thorough look finds an index that does not fit its table, and a text that is none, but for these `values`.

    A thorough look takes 6 to 10 s for each GiB in the machine's memory, a quick one an eighth of that.

    Raises:
        DamagedError: it is corrupt.
    """
    kind = "integrity_check" if thoroughly else "quick_check"
    health = connection.execute(f"PRAGMA {kind}(1)").fetchone()[0]
    if health != "ok":
        raise DamagedError(f"{path} is corrupt: {' '.join(health.split())}", path)
    if thoroughly:
        _read_texts(connection, path, values)


def _read_texts(connection: sqlite3.Connection, path: Path | None, values: Collection[str]) -> None:
    """Read every text of a store but these values. Raises DamagedError: one is no UTF-8."""
    columns: dict[str, list[str]] = defaultdict(list)
    for table, column in connection.execute(
        "SELECT tables.name, columns.name FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns "
        "WHERE tables.type = 'table' AND columns.type = 'TEXT'"
    ):
        if f"{table}.{column}" not in values:
            columns[table].append(column)
    for table, names in columns.items():
        try:
            deque(connection.execute(f"SELECT {', '.join(names)} FROM {table}"), maxlen=0)  # noqa: S608 (our own names)
        except sqlite3.OperationalError as err:
            if not is_damage(err):
                raise
            said = " ".join(str(err).split())
            # Not from the error: that may be one of a store that is locked.
            raise DamagedError(f"{path} is corrupt: a row of {table}: {said}", path) from None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; one inside another is part of the outer one."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # On a full disk SQLite has rolled back by itself, mostly; or it cannot, and then the reason is what to tell.
        if connection.in_transaction:
            with suppress(StoreTrouble):
                connection.execute("ROLLBACK")
        raise


class Part:
    """Some tables of a store; a store is made of such parts, each with an idea of its own."""

    db: sqlite3.Connection
    """SQLite itself. Only the parts of a store write SQL; what stands above asks them."""

    def transaction(self) -> AbstractContextManager[None]:
        """What is written inside is saved as a whole, or not at all."""
        return transaction(self.db)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """What reads and writes a kind of values: asked directly, because each event has dozens of small ones."""
    return TypeAdapter(kind)


def to_json(value: object) -> str:
    """A value of ours as JSON; its type must be the one that it is read back as."""
    kind: Any = type(value)
    return _adapter(kind).serializer.to_json(value).decode()


def from_row(kind: type[Value], text: str | bytes, remedy: str) -> Value:
    """A value of ours from a row of a store; `remedy` is what helps where it cannot be read.

    It is read as bytes (`CAST(value AS BLOB)`): of a text that is no UTF-8 Python gives nothing, nor of the rows after it.

    Raises:
        StoreError: it was damaged, or another version wrote it.
    """
    try:
        return from_json(kind, text)
    except ValidationError as err:
        first = err.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise StoreError(
            f"a stored {kind.__name__} cannot be read ({place + ': ' if place else ''}{first['msg']}): {remedy}"
        ) from err


def from_json(kind: type[Value], text: str | bytes) -> Value:
    """A value of ours from JSON. Raises ValueError."""
    hashable: Any = kind
    value: Value = _adapter(hashable).validator.validate_json(text)
    return value
