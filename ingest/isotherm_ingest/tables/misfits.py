"""Values of a type that a column cannot become have a column of their own beside it, where a stream says so. Only values here."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from isotherm_ingest.decode.kinds import fits, widened
from isotherm_ingest.tables.portion import Group


def beside(
    columns: Mapping[str, str], required: Collection[str], group: Group, key: Collection[str]
) -> Group:
    """The same messages, of which each column that does not fit into a table's is called otherwise.

    Columns of the key tell rows apart, and those that take no null cannot be left empty: these stay as they are.
    """
    known = {name.lower(): (name, kind) for name, kind in columns.items()}
    stays = {name.lower() for name in (*key, *required)}
    called = dict(group.schema.called)
    for column in group.schema.columns:
        name = called.get(column.name, column.name)
        there, kind = known.get(name.lower(), (name, column.kind.type))
        is_right = fits(kind, column.kind.type) or widened(kind, column.kind.type)
        if not is_right and name.lower() not in stays:
            called[column.name] = _name_beside(there, column.kind.type)
    return replace(group, schema=replace(group.schema, called=tuple(called.items())))


def instead_of(columns: Mapping[str, str]) -> dict[str, str]:
    """Columns of a table that stand beside another one, by their names and types, and that one."""
    found = {}
    for name, kind in columns.items():
        other = name.removesuffix(_name_beside("", kind))
        if other != name and other in columns:
            found[name] = other
    return found


def _name_beside(name: str, kind: str) -> str:
    """The name of a column for values of a type, in Spark's words, that do not fit into one of this name."""
    return f"{name}__{re.sub('[^a-z0-9]+', '_', kind.lower()).strip('_')}"
