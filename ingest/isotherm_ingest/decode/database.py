"""DuckDB, as it runs the statements of the decoders: one for each thread, in memory, on one core.

A statement is planned once, and kept: planning takes fifteen milliseconds, decoding a small batch takes one.
"""

import atexit
import threading
from collections import OrderedDict

import pyarrow as pa

from isotherm_ingest.decode.kinds import MACROS
from isotherm_ingest.decode.numbers import plain_number, without_exponent

MAX_STATEMENTS = 500
"""Planned statements that are kept; the one that was used longest ago goes first."""
MAX_KEPT_COST = 50_000
"""What they may cost together, in columns (`ChangeSchema.cost`): each takes some 20 to 50 kB."""


SLOW = "common_subexpressions,statistics_propagation,projection_placement"
"""What DuckDB does to make a plan better, in a time that grows with the square of a statement's columns: of a thousand dates
in half a minute. The statements of the decoders name nothing twice that it could find, and JSON has no statistics."""


class UnreadError(ValueError):
    """DuckDB refused something that a message says."""


class UnplannedError(ValueError):
    """DuckDB cannot run a statement at all, whatever the messages say."""


def plan(sql: str, messages: pa.RecordBatch, cost: int = 1) -> None:
    """Plan a statement of messages like these, which costs as much as so many columns, and keep it for `run`.

    Raises:
        UnplannedError: because of what the schema of its messages says.
    """
    _database().plan(sql, messages, cost)


def run(sql: str, messages: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns that a statement gives for a relation `messages`.

    Raises:
        UnreadError: because of what one of the messages says.
    """
    return _database().run(sql, messages)


def ask(sql: str, rows: pa.Table) -> pa.Table:
    """The answer to a query of a relation `given`, whose columns may be any; planned each time, which takes a millisecond."""
    return _database().ask(sql, rows)


def _database() -> "_Database":
    if not hasattr(_of_thread, "database"):  # late: a process that is forked must not inherit one
        _of_thread.database = _Database()
    database: _Database = _of_thread.database
    return database


_of_thread = threading.local()


class _Messages:
    """The relation that the statements read, whatever it holds at the moment."""

    def __init__(self, messages: pa.RecordBatch) -> None:
        self.now = messages

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.Table.from_batches([self.now]).__arrow_c_stream__(requested_schema)


class _Database:
    def __init__(self) -> None:
        import duckdb  # the driver needs none
        from duckdb.func import FunctionNullHandling

        # What is left says that the machine lacks something, and passes, or ends the database.
        self._of_messages = (duckdb.DataError, duckdb.ProgrammingError, duckdb.NotSupportedError)
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute(f"SET disabled_optimizers = '{SLOW}'")
        special = FunctionNullHandling.SPECIAL
        self._connection.create_function(
            "plain_number", plain_number, ["BLOB", "INTEGER"], "VARCHAR", null_handling=special
        )
        self._connection.create_function(
            "without_exponent", without_exponent, ["VARCHAR"], "VARCHAR", null_handling=special
        )
        for macro in MACROS:
            self._connection.execute(f"CREATE MACRO {macro}")
        self._messages: _Messages | None = None
        self._planned: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """By its SQL, the name of each statement, and what it costs."""
        self._cost = 0
        self._count = 0
        # Else it complains, at the end of the process, that the function was never given back.
        atexit.register(self._connection.close)

    def plan(self, sql: str, messages: pa.RecordBatch, cost: int) -> None:
        self._give(messages.slice(0, 0))
        try:
            self._name(sql, cost)
        except self._of_messages as err:
            raise UnplannedError(str(err)) from err

    def run(self, sql: str, messages: pa.RecordBatch) -> dict[str, pa.Array]:
        given = self._give(messages)
        try:
            found = self._connection.sql(f"EXECUTE {self._name(sql)}").to_arrow_table()
        except self._of_messages as err:
            raise UnreadError(str(err)) from err
        finally:
            given.now = messages.slice(0, 0)
        return {name: found[name].combine_chunks() for name in found.column_names}

    def _give(self, messages: pa.RecordBatch) -> _Messages:
        """Have the statements read these messages."""
        if self._messages is None:
            self._messages = _Messages(messages)
            self._connection.register("messages", self._messages)
        self._messages.now = messages
        return self._messages

    def ask(self, sql: str, rows: pa.Table) -> pa.Table:
        self._connection.register("given", rows)
        try:
            return self._connection.sql(sql).to_arrow_table()
        finally:
            self._connection.unregister("given")

    def _name(self, sql: str, cost: int = 1) -> str:
        """The name under which a statement is planned."""
        if sql not in self._planned:
            self._count += 1
            self._connection.execute(f"PREPARE s{self._count} AS {sql}")
            self._planned[sql] = f"s{self._count}", cost
            self._cost += cost
            while len(self._planned) > MAX_STATEMENTS or (
                self._cost > MAX_KEPT_COST and len(self._planned) > 1
            ):
                _, (oldest, its_cost) = self._planned.popitem(last=False)
                self._cost -= its_cost
                self._connection.execute(f"DEALLOCATE {oldest}")
        self._planned.move_to_end(sql)
        return self._planned[sql][0]
