"""Which columns the table of a query has, and whether what it computes fits into them. Only values here."""

import re
from collections.abc import Mapping, Sequence

from isotherm_ingest.decode.kinds import fits, widened
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.reserved_columns import RESERVED_COLUMNS

_LIKE = {"SMALLINT": "INT", "TINYINT": "INT"}
_PLAIN = re.compile(
    r"BOOLEAN|INT|BIGINT|FLOAT|DOUBLE|STRING|BINARY|DATE|TIMESTAMP|TIMESTAMP_NTZ|DECIMAL\(\d+,\d+\)"
)


def columns_of(table: str, found: Sequence[tuple[str, str]], key: Sequence[str]) -> dict[str, str]:
    """The columns of a query's result, with their types.

    Args:
        table: of the query.
        found: names, and types as Spark's schema writes them.
        key: of the query.

    Raises:
        TableRefused: a table cannot have them, or the key is none of them.
    """
    columns = {name: _type_of(table, name, kind) for name, kind in found}
    folded = [name.lower() for name, _ in found]
    if twice := sorted({name for name in folded if folded.count(name) > 1}):
        raise TableRefused(f"the query of {table} has two columns {twice[0]!r}: name them (`AS …`)")
    for name in columns:
        if name.lower() in RESERVED_COLUMNS:
            raise TableRefused(
                f"column {name!r} of {table} has the name of one of Iceberg's own: name it otherwise"
            )
    for name in key:
        kind = next((one for column, one in columns.items() if column.lower() == name.lower()), None)
        if kind is None:
            raise TableRefused(f"key column {name!r} is no column of the query of {table}: {list(columns)}")
        if not _PLAIN.fullmatch(kind) or kind in {"FLOAT", "DOUBLE", "BINARY"}:
            raise TableRefused(f"key column {name!r} of {table} is {kind}, by which no row is found surely")
    return columns


def is_like(found: str, wanted: str) -> bool:
    """Whether values of a type, as Spark's schema writes it, stay the same values in another one."""
    kind = _LIKE.get(found.upper(), found.upper())
    return fits(wanted, kind) or fits(kind, wanted)


def _type_of(table: str, name: str, kind: str) -> str:
    upper = kind.upper()
    told = _LIKE.get(upper, upper)
    inner = told.removeprefix("ARRAY<").removesuffix(">") if told.startswith("ARRAY<") else told
    if not _PLAIN.fullmatch(inner):
        raise TableRefused(
            f"column {name!r} of {table} is {kind}: say `to_json({name})`, or CAST it to a type of one value, or a list of these"
        )
    return told


def changes_of(table: str, there: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """The ALTERs that make room for the columns of a query.

    Raises:
        TableRefused: a column has another type than the table's.
    """
    known = {name.lower(): (name, kind) for name, kind in there.items()}
    added, changes = [], []
    for name, kind in wanted.items():
        if name.lower() not in known:
            added.append(f"{quoted(name)} {kind}")
            continue
        own, has = known[name.lower()]
        if widened(has, kind):
            changes.append(f"ALTER COLUMN {quoted(own)} TYPE {kind}")
        elif not fits(has, kind):
            raise TableRefused(
                f"column {name!r} of {table} is {has} there and {kind} in its query. CAST it, or drop the table to have it computed anew"
            )
    return [*([f"ADD COLUMNS ({', '.join(added)})"] if added else []), *changes]
