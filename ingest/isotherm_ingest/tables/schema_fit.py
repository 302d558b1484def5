"""Tables fit their rows: they are made, and altered where that is possible; rows that do not fit are refused."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from isotherm.runtime import logs
from isotherm_ingest.dead_letter_topic import MAX_PROBLEM
from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.decode.kinds import fits, widened
from isotherm_ingest.failures import TableRefused, brief, is_refused
from isotherm_ingest.sql.text import literal, quoted
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.column_names import Names, clash_of, first_clash, names_of
from isotherm_ingest.tables.definition import definition
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, TableNow, create_statements
from isotherm_ingest.tables.misfits import Columns, beside
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.tables.rows_of import said_first
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.source_names import SourceNames, names_in, names_to_say, to_be_renamed
from isotherm_ingest.tables.template import template_of
from isotherm_ingest.tables.tools import Tools

MAX_COLUMNS = 2_000
"""Columns of a table up to which it gets more. Its metadata keeps each schema that it had, in which all of them are."""

_creating = threading.Lock()
"""Two threads that make one namespace at the same time: a catalog may refuse one of them."""


class SchemaFit:
    """Makes one table, and keeps it such that its rows fit."""

    def __init__(self, name: str, stream: Stream, sessions: Sessions, tools: Tools) -> None:
        self._name = name
        self._stream = stream
        self._sessions = sessions
        self._tools = tools
        self._target = tools.lake.spark_name(name)
        self._log = logs.get().bind(table=name)

    def create(self, groups: Sequence[Group], key: Sequence[str]) -> TableNow:
        """Make the table, with the columns of these schemas."""
        lower: dict[str, Column] = {}
        for group in groups:
            given = {column.name.lower(): column for column in group.columns}
            if not lower or len(lower | given) <= MAX_COLUMNS:  # those of others do not fit
                lower = given | lower
        columns = {column.name: column.kind.type for column in lower.values()}
        if clash := first_clash(lower.values(), self._stream):
            raise TableRefused(clash)
        for field in self._stream.spec:
            if field.column.lower() not in lower:
                raise TableRefused(
                    f"partition_by names {field.column!r}, which {self._name} does not have: {sorted(columns)}"
                )
        if self._stream.mode == "changelog":
            columns |= {name: own.type for name, own in CHANGELOG_COLUMNS.items()}
        made_of = template_of(self._name, self._stream, key, columns)
        properties = {
            **self._stream.table_properties,
            PIPELINE_PROPERTY: self._tools.pipeline,
            **definition(self._stream, key, groups),
            **(said_first(groups) if self._stream.mode == "mirror" else {}),
        }
        statements = create_statements(
            self._tools.lake, self._name, made_of.columns, self._stream.partition_by, properties
        )
        with _creating:
            for statement in statements:
                self._sessions.own.sql(statement)
        self._log.info(
            "table_created", columns=len(columns), partition_by=", ".join(self._stream.partition_by)
        )
        return self._saying_names(self.finished(self.load(), key))

    def finished(self, now: TableNow, key: Sequence[str]) -> TableNow:
        """The table, with what cannot be said where it is made. That, and not when it was made, says what is missing: this driver,
        or the one before it, may have died in between. One that has rows, or that somebody else made, keeps what it has.
        """
        is_ours = now.properties.get(PIPELINE_PROPERTY) == self._tools.pipeline
        if now.head is not None or not is_ours:
            return now
        changes = template_of(self._name, self._stream, key, now.columns).missing(now)
        for change in changes:
            self._sessions.own.sql(f"ALTER TABLE {self._target} {change}")
            self._log.info("table_altered", change=change)
        return self.load() if changes else now

    def names(self, now: TableNow | None) -> SourceNames:
        """What the names of the source mean in the table."""
        return names_in(self._stream, now)

    def renamed(self, now: TableNow) -> TableNow:
        """The table with the names that its stream wants for its columns, and with what tells the names of before.

        Raises:
            TableRefused: it cannot have one.
        """
        now = self._saying_names(now)
        renamings = to_be_renamed(self.names(now))
        for old, new in renamings.items():
            change = f"RENAME COLUMN {quoted(old)} TO {quoted(new)}"
            try:
                self._sessions.own.sql(f"ALTER TABLE {self._target} {change}")
            except Exception as err:
                if not is_refused(err):
                    raise
                raise TableRefused(f"{self._name} refuses {change}: {brief(err)}") from err
            self._log.info("table_altered", change=change)
        return self.load() if renamings else now

    def _saying_names(self, now: TableNow, messages: Iterable[ChangeSchema] = ()) -> TableNow:
        """The table, which now says by which names its columns are known."""
        return self.saying(now, names_to_say(self.names(now), messages))

    def saying(self, now: TableNow, properties: Mapping[str, str]) -> TableNow:
        """The table, after these properties of it were set, if any."""
        if not properties:
            return now
        self.say(properties)
        return self.load()

    def say(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table."""
        said = ", ".join(f"{literal(name)}={literal(value)}" for name, value in properties.items())
        self._sessions.own.sql(f"ALTER TABLE {self._target} SET TBLPROPERTIES ({said})")

    def load(self) -> TableNow:
        """The table, which must be there. Raises TableRefused."""
        now = self._tools.lake.load(self._name)
        if now is None:
            raise TableRefused(f"table {self._name} was dropped while it was written")
        return now

    def made_to_fit(
        self, now: TableNow, groups: Sequence[Group], key: Collection[str]
    ) -> tuple[TableNow, tuple[Group, ...], dict[Group, str]]:
        """The table, altered where it must be, the groups whose rows fit, and those whose rows do not, with the reason.

        It is altered for messages that there are: a column that somebody has dropped comes back with the next message
        that has it, and not with the memory of one. Groups for which it would be altered are left out until then.

        Args:
            now: the table.
            groups: what messages look like, as the table calls their columns.
            key: of a mirror. These columns must fit as they are.
        """
        now = self._with_columns_of_all(now, [group for group in groups if group.is_met])
        fitting: list[Group] = []
        refused: dict[Group, str] = {}
        met: list[ChangeSchema] = []
        brought = {column.name.lower() for group in groups for column in group.columns}
        for given in groups:
            group, comments = given, {}
            if self._stream.misfits == "column":
                table = Columns.of(now)
                group, new = beside(table, given, key, brought)
                comments = table.comments(new)
            misfit, changes = self._changes_for(now, group, comments)
            if misfit is None and changes and not group.is_met:
                continue
            if misfit is None and changes:
                now, misfit = self._altered(group, changes, comments)
            if misfit is not None:
                refused[group] = misfit
                continue
            fitting.append(group)
            if given.is_met:
                met.append(given.schema)  # as it came: a name means a column, also where a value does not fit
        return self._saying_names(now, met), tuple(fitting), refused

    def _with_columns_of_all(self, now: TableNow, groups: Sequence[Group]) -> TableNow:
        """The table with the new columns of several schemas, if it takes them together.

        A batch may bring hundreds of schemas, and each change of the table keeps all of its columns once more.
        """
        if len(groups) < 2:
            return now
        columns, mode = now.columns, self._stream.mode
        names = names_of(now.table.schema(), now.table.specs().values())
        bringing = [group for group in groups if changes_for(columns, group, mode, names)[1]]
        added = new_columns(columns, bringing, mode, names)
        if len(bringing) < 2 or not added:
            return now
        change = added_by(added)
        try:
            self._sessions.own.sql(f"ALTER TABLE {self._target} {change}")
        except Exception as err:
            if not is_refused(err):
                raise
        else:
            self._log.info("table_altered", change=change[:MAX_PROBLEM])
        return self.load()  # also where it was refused: schema by schema it shows which one is

    def _altered(
        self, group: Group, changes: Iterable[str], comments: Mapping[str, str]
    ) -> tuple[TableNow, str | None]:
        """The table after these changes, or up to the one that it does not take, with the reason."""
        for change in changes:
            try:
                self._sessions.own.sql(f"ALTER TABLE {self._target} {change}")
            except Exception as err:
                if not is_refused(err):
                    raise
                now = self.load()
                if (
                    change not in self._changes_for(now, group, comments)[1]
                ):  # somebody else made it meanwhile
                    raise
                return now, f"the table refuses {change[:MAX_PROBLEM]}: {brief(err)}"
            self._log.info("table_altered", change=change[:MAX_PROBLEM])
        return self.load(), None

    def _changes_for(
        self, now: TableNow, group: Group, comments: Mapping[str, str]
    ) -> tuple[str | None, list[str]]:
        names = names_of(now.table.schema(), now.table.specs().values())
        return changes_for(now.columns, group, self._stream.mode, names, comments)


def changes_for(
    columns: Mapping[str, str],
    group: Group,
    mode: str,
    names: Names,
    comments: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str | None, list[str]]:
    """What does not fit into the columns, if anything; else the ALTERs that make room for a schema.

    New columns come together: each ALTER leaves the table with one schema more.

    Args:
        columns: of the table, with their types.
        group: what messages look like.
        mode: the table's.
        names: what else has a name in the table.
        comments: by name, the docs of new columns.
    """
    known = {name.lower(): kind for name, kind in columns.items()}
    changes: list[str] = []
    added: dict[str, str] = {}
    met: dict[str, str] = {}
    for column, own in zip(group.columns, group.schema.columns, strict=True):
        if clash := clash_of(column.name, mode):
            return clash, []
        if (other := met.setdefault(column.name.lower(), own.name)) != own.name:
            return (
                f"columns {other!r} and {own.name!r} of the message are both {column.name!r} of the table",
                [],
            )
        kind = known.get(column.name.lower())
        if kind is None:
            if clash := names.clash_of(column):
                return clash, []
            names = names.with_column(column)
            added[column.name] = column.kind.type
        elif widened(kind, column.kind.type):
            changes.append(f"ALTER COLUMN {quoted(column.name)} TYPE {column.kind.type}")
        elif not fits(kind, column.kind.type):
            return f"column {column.name} is {kind} in the table and {column.kind.type} in the message", []
    if added and len(columns) + len(added) > MAX_COLUMNS:
        return f"the table has {len(columns)} columns, and would have more than {MAX_COLUMNS}", []
    return None, [added_by(added, comments), *changes] if added else changes


def new_columns(
    columns: Mapping[str, str], groups: Iterable[Group], mode: str, names: Names
) -> dict[str, str]:
    """The columns that schemas bring, each with the type that is wide enough for all of them.

    One that does not fit into the table, or beside what those before it bring, brings none.
    """
    together = dict(columns)
    for group in groups:
        if changes_for(together, group, mode, names)[0] is not None:
            continue
        together, names = taken_in(together, group, names)
    return {name: kind for name, kind in together.items() if name not in columns}


def taken_in(columns: Mapping[str, str], group: Group, names: Names) -> tuple[dict[str, str], Names]:
    """The columns of a table, and what has a name in it, once a schema that fits was taken in."""
    kinds = dict(columns)
    named = {name.lower(): name for name in kinds}
    for column in group.columns:
        name = named.get(column.name.lower())
        if name is None:
            names = names.with_column(column)
            kinds[column.name] = column.kind.type
        elif widened(kinds[name], column.kind.type):
            kinds[name] = column.kind.type
    return kinds, names


def added_by(columns: Mapping[str, str], comments: Mapping[str, str] = MappingProxyType({})) -> str:
    """The ALTER that adds these columns, with their docs: set by another one, these would be lost with a driver between."""
    said = {name: f" COMMENT {literal(comment)}" for name, comment in comments.items()}
    added = (f"{quoted(name)} {kind}{said.get(name, '')}" for name, kind in columns.items())
    return f"ADD COLUMNS ({', '.join(added)})"
