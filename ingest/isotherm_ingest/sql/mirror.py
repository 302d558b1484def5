"""The SQL of a mirror: the newest change of each key, where the rows of those keys are, and the rows to write.

Text only; nothing here runs it. A view of changes has `row` and `change`, as decoded. A view of newest changes has `row`,
`is_gone`, and `kept`: the columns whose value the batch does not tell, so that the one in the table stays.
"""
# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isotherm_ingest.sql.partitions import moments, partition_value
from isotherm_ingest.sql.text import literal, quoted
from isotherm_ingest.tables.lake import SpecField

FEW = 200
"""Keys up to which they are named one by one: Iceberg looks at no more values of one `IN` where it skips files."""

ROW_ID, LAST_UPDATED = "_row_id", "_last_updated_sequence_number"
"""What format 3 knows of each row. A row that is written again keeps its id, and is stamped with its new number."""


def newest_sql(view: str, columns: Sequence[str], key: Sequence[str], may_keep: Sequence[str]) -> str:
    """SQL of the newest change of each key, by Kafka offset.

    Args:
        view: the decoded changes.
        columns: all columns of the table.
        key: those that tell rows apart.
        may_keep: columns that a change may name in `kept`: their newest value since the row was last deleted is
            carried over.
    """
    keys = ", ".join(f"row.{quoted(name)}" for name in key)
    # A message that takes a row to another key has two changes, and both are of one key where only its text differs.
    at = "struct(change.offset, change.partition, change.op <> 'd')"
    newest = f"max_by(struct(row, change.op = 'd' AS is_gone, change.kept AS kept), {at}) AS newest"
    fine = f"{view} WHERE change.problem IS NULL"
    if not may_keep:
        return f"""
            SELECT newest.row AS row, newest.is_gone AS is_gone, CAST(array() AS ARRAY<STRING>) AS kept
            FROM (SELECT {newest} FROM {fine} GROUP BY {keys})"""
    carries = {name: f"c{place}" for place, name in enumerate(may_keep)}
    # A struct tells "a true null" from "no true value".
    carried = [
        f"max_by(struct(row.{quoted(name)} AS v), {at}) FILTER (WHERE change.op <> 'd' AND "
        f"NOT {_is_kept('change', name)}) AS {carry}"
        for name, carry in carries.items()
    ]
    row = ", ".join(f"{literal(name)}, {_carried(name, carries.get(name))}" for name in columns)
    missing = [
        f"IF({_is_kept('newest', name)} AND {carry} IS NULL, {literal(name)}, NULL)"
        for name, carry in carries.items()
    ]
    return f"""
        SELECT named_struct({row}) AS row, newest.is_gone AS is_gone,
            IF(was_gone, CAST(array() AS ARRAY<STRING>), array_compact(array({", ".join(missing)}))) AS kept
        FROM (
            SELECT {", ".join([newest, "bool_or(gone_at IS NOT NULL) AS was_gone", *carried])}
            FROM (
                SELECT *, max(IF(change.op = 'd', {at}, NULL)) OVER (PARTITION BY {keys}) AS gone_at FROM {fine}
            )
            WHERE gone_at IS NULL OR {at} >= gone_at
            GROUP BY {keys}
        )"""


def _carried(name: str, carry: str | None) -> str:
    value = f"newest.row.{quoted(name)}"
    return value if carry is None else f"IF({_is_kept('newest', name)}, {carry}.v, {value})"


def _is_kept(change: str, name: str) -> str:
    return f"coalesce(array_contains({change}.kept, {literal(name)}), false)"


# Which part of the table may hold the keys


def keys_sql(
    newest: str, key: Sequence[str], fields: Sequence[tuple[SpecField, str]], catalog: str, *, is_few: bool
) -> str:
    """SQL of what tells where the keys may be: how many, the least and the greatest of each column, and partitions.

    Args:
        newest: a view of newest changes.
        key: columns of the key whose values can be told.
        fields: fields of the spec whose columns are in the key, by time, and the types of those columns.
        catalog: the catalog's name, for Iceberg's own functions.
        is_few: whether all values are wanted, one by one.
    """
    wanted = [
        "count(*) AS keys",
        "count_if(NOT is_gone) AS rows",
        "count_if(size(kept) > 0 AND NOT is_gone) AS keeping",
    ]
    for place, name in enumerate(key):
        column = f"row.{quoted(name)}"
        if is_few:
            wanted.append(f"collect_set({_text(column)}) AS every{place}")
        else:
            wanted += [
                f"{_text(f'min({column})')} AS least{place}",
                f"{_text(f'max({column})')} AS most{place}",
            ]
    for place, (field, _) in enumerate(fields):
        value = partition_value(field, f"row.{quoted(field.column)}", catalog)
        wanted.append(f"collect_set(CAST({value} AS BIGINT)) AS times{place}")
    return f"SELECT {', '.join(wanted)} FROM {newest}"


def _text(value: str) -> str:
    return f"CAST({value} AS STRING)"


@dataclass(frozen=True, slots=True)
class Reach:
    """Which rows of a table may have one of the keys, as a condition on its columns."""

    keys: int
    rows: int
    """Keys whose row is written, not only deleted."""
    keeping: int
    """Rows with a value that stays as the table has it."""
    condition: str
    """In SQL, over the names of the table's columns now; empty where nothing is known."""


def reach_of(
    found: Mapping[str, Any], key: Mapping[str, str], fields: Sequence[tuple[SpecField, str]], *, is_few: bool
) -> Reach:
    """What `keys_sql` answered; `key` has the types of the columns."""
    if not found["keys"]:
        return Reach(0, 0, 0, "")
    parts = []
    for place, (name, kind) in enumerate(key.items()):
        if is_few:
            values = ", ".join(_cast(value, kind) for value in sorted(found[f"every{place}"]))
            parts.append(f"{quoted(name)} IN ({values})")
        else:
            least, most = (_cast(found[f"{end}{place}"], kind) for end in ("least", "most"))
            parts.append(f"{quoted(name)} >= {least} AND {quoted(name)} <= {most}")
    for place, (field, kind) in enumerate(fields):
        parts.append(moments(field, kind, found[f"times{place}"]) or "")
    known = [f"({part})" for part in parts if part]
    return Reach(found["keys"], found["rows"], found["keeping"], " AND ".join(known))


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


def _cast(text: str, kind: str) -> str:
    return literal(text) if kind == "STRING" else f"CAST({literal(text)} AS {kind})"


# Where the rows are, and what is written in their place


def locate_sql(
    target: str, newest: str, key: Sequence[str], condition: str, old: Sequence[str], *, is_broadcast: bool
) -> str:
    """SQL of where the rows of the keys are, with their key as `k0`, `k1`, … and old values as `o0`, `o1`, ….

    Args:
        target: the table, with the snapshot.
        newest: a view of newest changes.
        key: the columns of the key.
        condition: what every such row fulfils; may be empty.
        old: columns whose values are wanted too.
        is_broadcast: whether the keys fit into the memory of every task.
    """
    keys = [f"{quoted(name)} AS k{place}" for place, name in enumerate(key)]
    olds = [f"{quoted(name)} AS o{place}" for place, name in enumerate(old)]
    wanted = ", ".join(["_file", "_pos", "_spec_id", "_partition", *keys, *olds])
    source = ", ".join(f"row.{quoted(name)} AS k{place}" for place, name in enumerate(key))
    on = " AND ".join(f"t.k{place} = s.k{place}" for place in range(len(key)))
    return f"""
        SELECT {"/*+ BROADCAST(s) */ " if is_broadcast else ""}t.*
        FROM (SELECT {wanted} FROM {target} {f"WHERE {condition}" if condition else ""}) t
        JOIN (SELECT {source} FROM {newest}) s ON {on}"""


def positions_sql(located: str) -> str:
    """SQL of the positions in each file."""
    return (
        "SELECT _file, first(_spec_id) AS _spec_id, first(_partition) AS _partition, collect_list(_pos) AS positions "
        f"FROM {located} GROUP BY _file"
    )


def rows_sql(
    newest: str,
    located: str | None,
    columns: Mapping[str, str],
    key: Sequence[str],
    old: Sequence[str],
    *,
    has_ids: bool,
) -> str:
    """SQL of the rows to write, with all columns of the table.

    Args:
        newest: a view of newest changes.
        located: a view of where the rows of their keys are, if any is known and `old` is not empty.
        columns: the table's columns and their types.
        key: the columns of the key.
        old: columns whose old values the view has.
        has_ids: whether rows have ids (format 3).
    """
    places = {name: place for place, name in enumerate(old)} if located else {}
    values = []
    for name, kind in columns.items():
        value = f"n.row.{quoted(name)}"
        if name in places:
            before = f"CAST(o.old.o{places[name]} AS {kind})"
            value = f"IF({_is_kept('n', name)}, {before}, {value})"
        values.append(f"{value} AS {quoted(name)}")
    if has_ids:
        values.append(f"CAST({f'o.old.o{places[ROW_ID]}' if located else 'NULL'} AS BIGINT) AS {ROW_ID}")
        values.append(f"CAST(NULL AS BIGINT) AS {LAST_UPDATED}")
    joined = ""
    if located:
        keys = ", ".join(f"k{place}" for place in range(len(key)))
        olds = ", ".join(f"o{place}" for place in range(len(old)))
        on = " AND ".join(f"o.k{place} = n.row.{quoted(name)}" for place, name in enumerate(key))
        joined = f"LEFT JOIN (SELECT {keys}, first(struct({olds})) AS old FROM {located} GROUP BY {keys}) o ON {on}"
    return f"SELECT {', '.join(values)} FROM {newest} n {joined} WHERE NOT n.is_gone"
