"""The SQL of a mirror: the newest change of each key, merged. Text only; nothing here runs it.

No guard column stands in the table: the vector filters replays, and two MERGEs of the same range cannot both commit
(each is validated against what came since its own scan; the loser is computed again and finds the vector moved).
What remains is a second driver that was paused between reading the vector and planning; run one driver.
"""
# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from isotherm.contract.identity import PartitionKey, Scalar, partition_key
from isotherm_ingest.sql.text import literal, quoted
from isotherm_ingest.tables.lake import SpecField

MAX_RANGES = 60
"""Ranges in one ON condition; beyond it, one range from the first to the last."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LITERALS = {"TIMESTAMP": "TIMESTAMP", "TIMESTAMP_NTZ": "TIMESTAMP_NTZ", "DATE": "DATE"}


@dataclass(frozen=True, slots=True)
class Touched:
    """The partitions that a MERGE may touch, by the values of the spec's fields."""

    fields: tuple[tuple[SpecField, str], ...]
    """Field and type of its column."""
    values: frozenset[tuple[Scalar, ...]]

    @property
    def keys(self) -> tuple[PartitionKey, ...]:
        """The partitions' keys, as the daemon knows them."""
        ids = [field.field_id for field, _ in self.fields]
        return tuple(sorted(partition_key(dict(zip(ids, one, strict=True))) for one in self.values))


def newest_sql(view: str, columns: Iterable[str], key: Sequence[str], unavailable: Iterable[str]) -> str:
    """SQL of the newest change of each key, by Kafka offset: `row`, `op` and `kept`.

    `unavailable` names the columns in which a value may be kept: the newest true value is carried over, and `kept`
    has the columns for which the batch holds none.
    """
    carries = {name: f"c{place}" for place, name in enumerate(unavailable)}
    keys = ", ".join(f"row.{quoted(name)}" for name in key)
    # A struct tells "a true null" from "no true value".
    carried = [
        f"max_by(struct(row.{quoted(name)} AS v), change.offset) FILTER (WHERE change.op <> 'd' AND "
        f"NOT {_is_kept('change', name)}) AS {carry}"
        for name, carry in carries.items()
    ]
    newest = "max_by(struct(row, change.op AS op, change.kept AS kept), struct(change.offset, change.partition)) AS newest"
    row = ", ".join(f"{literal(name)}, {_carried(name, carries.get(name))}" for name in columns)
    missing = ", ".join(
        f"IF({_is_kept('newest', name)} AND {carry} IS NULL, {literal(name)}, NULL)"
        for name, carry in carries.items()
    )
    kept = f"array_compact(array({missing}))" if missing else "CAST(array() AS ARRAY<STRING>)"
    return f"""
        SELECT named_struct({row}) AS row, newest.op AS op, {kept} AS kept
        FROM (SELECT {", ".join([newest, *carried])} FROM {view} WHERE change.problem IS NULL GROUP BY {keys})"""


def _carried(name: str, carry: str | None) -> str:
    value = f"newest.row.{quoted(name)}"
    return value if carry is None else f"IF({_is_kept('newest', name)}, {carry}.v, {value})"


def _is_kept(change: str, name: str) -> str:
    return f"coalesce(array_contains({change}.kept, {literal(name)}), false)"


def merge_sql(
    target: str,
    source_sql: str,
    columns: Sequence[str],
    key: Sequence[str],
    unavailable: Iterable[str],
    pruning: str | None,
) -> str:
    """The MERGE. It always has a WHEN MATCHED branch: an insert-only MERGE is not validated (iceberg#12653)."""
    kept = set(unavailable)
    on = " AND ".join(f"t.{quoted(name)} = s.row.{quoted(name)}" for name in key)
    if pruning:
        on += f" AND ({pruning})"
    updates = ", ".join(
        f"t.{quoted(name)} = IF({_is_kept('s', name)}, t.{quoted(name)}, s.row.{quoted(name)})"
        if name in kept
        else f"t.{quoted(name)} = s.row.{quoted(name)}"
        for name in columns
        if name not in key
    )
    updates = updates or f"t.{quoted(key[0])} = s.row.{quoted(key[0])}"
    names = ", ".join(quoted(name) for name in columns)
    values = ", ".join(f"s.row.{quoted(name)}" for name in columns)
    return f"""
        MERGE INTO {target} t USING ({source_sql}) s ON {on}
        WHEN MATCHED AND s.op = 'd' THEN DELETE
        WHEN MATCHED THEN UPDATE SET {updates}
        WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({names}) VALUES ({values})"""


def pruning_sql(touched: Touched) -> str | None:
    """A condition with literals on the target, true for every row that the MERGE can match.

    Returns None where there is none.

    Literals are pushed into the scan, where they skip files and manifests, and into the validation, so that a
    commit in other partitions is no conflict.
    """
    conditions = []
    for place, (field, kind) in enumerate(touched.fields):
        values = {one[place] for one in touched.values}
        condition = _condition(field, kind, values)
        if condition:
            conditions.append(condition)
    return " AND ".join(conditions) or None


def _condition(field: SpecField, kind: str, values: set[Scalar]) -> str | None:
    column = f"t.{quoted(field.column)}"
    ordinals = sorted(value for value in values if isinstance(value, int) and not isinstance(value, bool))
    if (
        field.transform in {"hours", "days", "months", "years"}
        and len(ordinals) == len(values)
        and kind in _LITERALS
    ):
        ranges = contiguous(ordinals)
        if len(ranges) > MAX_RANGES:
            ranges = [(ranges[0][0], ranges[-1][1])]
        try:
            parts = [
                f"({column} >= {_moment(field.transform, first, kind)} AND {column} < {_moment(field.transform, last + 1, kind)})"
                for first, last in ranges
            ]
        except OverflowError:  # a year that no literal holds
            return None
        return "(" + " OR ".join(parts) + ")"
    if field.transform == "identity" and len(values) <= MAX_RANGES:
        if all(isinstance(value, str) for value in values):
            return f"{column} IN ({', '.join(literal(str(value)) for value in sorted(values, key=str))})"
        if len(ordinals) == len(values) and kind in {"INT", "BIGINT"}:
            return f"{column} IN ({', '.join(map(str, ordinals))})"
    return None


def contiguous(ordinals: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of sorted ordinals: `[1, 2, 5]` are 1 to 2 and 5 to 5."""
    runs: list[tuple[int, int]] = []
    for one in ordinals:
        if runs and one == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], one)
        else:
            runs.append((one, one))
    return runs


def _moment(transform: str, ordinal: int, kind: str) -> str:
    """The first moment of a partition, as a literal."""
    match transform:
        case "hours":
            moment = _EPOCH + timedelta(hours=ordinal)
        case "days":
            moment = _EPOCH + timedelta(days=ordinal)
        case "months":
            moment = _month(ordinal)
        case _:
            moment = _month(12 * ordinal)
    text = moment.replace(tzinfo=None).isoformat(" ")  # strftime does not pad years
    if kind == "DATE":
        return f"DATE'{text[:10]}'"
    zone = "Z" if kind == "TIMESTAMP" else ""
    return f"{kind}'{text}{zone}'"


def _month(months: int) -> datetime:
    year, month = 1970 + months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError(f"year {year}")
    return datetime(year, month, 1, tzinfo=UTC)
