"""Where the rows of a mirror's keys are: a condition on the table's columns, and the SQL of what is asked of them.

Text only; nothing here runs it.
"""
# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.sql.partitions import moments
from isotherm_ingest.sql.text import literal, quoted
from isotherm_ingest.tables.lake import SpecField

FEW = 200
"""Keys up to which they are named one by one: Iceberg looks at no more values of one `IN` where it skips files."""

LONGEST = 128 * 1024
"""Bytes of keys in one condition: 200 of 600 each. Spark parses it, plans it and sends it to each task, some hundred
times over in memory, and 200 texts of a megabyte end a JVM of a gigabyte. Without it, more files are read."""
_NEAR_THE_LEAST = {"INT": -(2**30), "BIGINT": -(2**62)}
"""Below these no lower bound is told: Iceberg's Java truncates it, where a partition is truncated, to a large positive number,
and skips every file."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Which rows of a table may have one of the keys, as a condition on its columns."""

    condition: str
    """In SQL, over the names of the table's columns now; empty where nothing is known."""
    is_exact: bool
    """Whether all such rows have one."""


def reach_of(
    keys: pa.Table,
    kinds: Mapping[str, str],
    times: Sequence[tuple[SpecField, Collection[int]]],
    untold: Collection[str] = (),
) -> Reach:
    """Which rows may have one of the keys.

    Args:
        keys: the columns of the key, in Spark's types.
        kinds: the types of all columns of the table.
        times: fields of the spec whose columns are in the key, and in which partitions of time the keys are.
        untold: columns whose values no filter finds, whatever their type.
    """
    is_few = keys.num_rows <= FEW
    is_exact = is_few and keys.num_columns == 1
    room = LONGEST
    parts = []
    for name in keys.column_names:
        part, is_list = "", False
        if can_be_told(kinds[name]) and name not in untold:
            part, is_list = _told(name, keys.column(name), kinds[name], is_few, room)
        is_exact = is_exact and is_list
        room -= len(part.encode())
        parts.append(part)
    parts += [moments(field, kinds[field.column], ordinals) or "" for field, ordinals in times]
    condition = " AND ".join(f"({part})" for part in parts if part)
    return Reach(condition, is_exact)


def _told(name: str, values: pa.ChunkedArray, kind: str, is_few: bool, room: int) -> tuple[str, bool]:
    """A condition on one column, and whether it names each value; nothing where that has no room."""
    # Looked at before it is made into text, which would be as large again.
    if is_few and values.nbytes <= room:
        texts = sorted({literal_of(one, kind) for one in values.to_pylist()})
        part = f"{quoted(name)} IN ({', '.join(texts)})"
        if len(part.encode()) <= room:
            return part, True
    ends = pc.min_max(values).as_py()
    least, most = (literal_of(ends[end], kind) for end in ("min", "max"))
    part = f"{quoted(name)} <= {most}"
    if ends["min"] is None or kind not in _NEAR_THE_LEAST or ends["min"] >= _NEAR_THE_LEAST[kind]:
        part = f"{quoted(name)} >= {least} AND {part}"
    return (part, False) if len(part.encode()) <= room else ("", False)


def can_be_told(kind: str) -> bool:
    """Whether values of this type can be written as text, and read again as the very same values."""
    return kind in {
        "STRING",
        "INT",
        "BIGINT",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
    } or kind.startswith("DECIMAL(")


def literal_of(value: Any, kind: str) -> str:
    """A value as SQL says it."""
    match value:
        case str():
            return literal(value)
        case bool():
            text = str(value).lower()
        case datetime():
            text = value.isoformat(" ")
        case date():
            text = value.isoformat()
        case Decimal():
            text = format(value, "f")
        case _:
            text = str(value)
    return f"CAST({literal(text)} AS {kind})"


def wanted_sql(key: Sequence[str], old: Sequence[str]) -> list[str]:
    """SQL of what is asked of each row: where it is, its key as `k0`, `k1`, … and old values as `o0`, `o1`, ….

    Args:
        key: the columns of the key.
        old: columns whose values are wanted too.
    """
    told = [f"{quoted(name)} AS k{place}" for place, name in enumerate(key)]
    olds = [f"{quoted(name)} AS o{place}" for place, name in enumerate(old)]
    return ["_file", "_pos", "_spec_id", "_partition", *told, *olds]


def positions_sql(located: str) -> str:
    """SQL of the positions in each file."""
    return (
        "SELECT _file, first(_spec_id) AS _spec_id, first(_partition) AS _partition, collect_list(_pos) AS positions "
        f"FROM {located} GROUP BY _file"
    )


def old_sql(located: str, key: Sequence[str], old: Sequence[str]) -> str:
    """SQL of the keys and the old values that were found."""
    names = [f"k{place}" for place in range(len(key))] + [f"o{place}" for place in range(len(old))]
    return f"SELECT {', '.join(names)} FROM {located}"
