"""Values of a type that a column cannot become have a column of their own beside it, where a stream says so. Only values here.

Which column stands beside which is in its doc, by field id: so it is the same column whatever the two are called later, and
a column of the source that happens to have such a name is none.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from isotherm_ingest.decode.kinds import fits, widened
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.portion import Group

_DOC = "ingest: of column {}, what does not fit into it"
_OF_COLUMN = re.compile(_DOC.format(r"(\d{1,10})"), re.ASCII)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, as far as values may not fit into them."""

    kinds: Mapping[str, str]
    """By name, their types in Spark's words."""
    required: frozenset[str] = frozenset()
    ids: Mapping[str, int] = field(default_factory=dict)
    """By name, the field ids that are known."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Columns that hold what does not fit into another one, and that one."""

    @classmethod
    def of(cls, now: TableNow) -> "Columns":
        """Those of a table."""
        schema = now.table.schema()
        ids = {one.name: one.field_id for one in schema.fields}
        return cls(now.columns, now.required, ids, instead_of(schema))

    def comments(self, new: Mapping[str, str]) -> dict[str, str]:
        """The docs of new columns, each of which stands beside another one."""
        return {name: _DOC.format(self.ids[other]) for name, other in new.items() if other in self.ids}


def base_of(column: NestedField) -> int | None:
    """The id of the column beside which one stands, or once stood; None where it is a column of its own."""
    told = _OF_COLUMN.match(column.doc or "")
    return None if told is None else int(told[1])


def instead_of(schema: Schema) -> dict[str, str]:
    """Columns of a table that stand beside another one, and that one."""
    names = {one.field_id: one.name for one in schema.fields}
    bases = {one.name: base_of(one) for one in schema.fields}
    return {name: names[base] for name, base in bases.items() if base in names and names[base] != name}


def beside(
    table: Columns, group: Group, key: Collection[str], taken: Collection[str]
) -> tuple[Group, dict[str, str]]:
    """The same messages, of which each column that does not fit into a table's is called otherwise; and the columns that are
    new by that, with those beside which they stand.

    Columns of the key tell rows apart, and those that take no null cannot be left empty: these stay as they are.

    Args:
        table: the table's columns.
        group: the messages, as the table calls their columns.
        key: of a mirror.
        taken: names, in lower case, that no new column can have, though the table has none of them yet.
    """
    known = {name.lower(): (name, kind) for name, kind in table.kinds.items()}
    stays = {name.lower() for name in (*key, *table.required)}
    taken = {*taken, *known}
    called = dict(group.schema.called)
    new: dict[str, str] = {}
    for column in group.schema.columns:
        name, wanted = called.get(column.name, column.name), column.kind.type
        there, kind = known.get(name.lower(), (name, wanted))
        if fits(kind, wanted) or widened(kind, wanted) or name.lower() in stays:
            continue
        mine = (one for one, other in table.beside.items() if other == there)
        fitting = next((one for one in mine if fits(table.kinds[one], wanted)), None)
        if fitting is None:
            fitting = free_name(_name_beside(there, wanted), taken)
            taken.add(fitting.lower())
            new[fitting] = there
        called[column.name] = fitting
    return replace(group, schema=replace(group.schema, called=tuple(called.items()))), new


def free_name(name: str, taken: Collection[str]) -> str:
    """A name, or one with a number behind it, that is not taken; those that are, are in lower case."""
    if name.lower() not in taken:
        return name
    return next(one for number in count(2) if (one := f"{name}_{number}").lower() not in taken)


def _name_beside(name: str, kind: str) -> str:
    """The name of a column for values of a type, in Spark's words, that do not fit into one of this name."""
    return f"{name}__{re.sub('[^a-z0-9]+', '_', kind.lower()).strip('_')}"
