"""A mirror's rows: the newest change of each key, by Kafka offset.

A value that a change does not tell is the newest one that the batch tells since the row was last deleted; what none
tells stays as the table has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.database import ask
from isotherm_ingest.decode.debezium_messages import kept_names

_GONE = "is gone"


@dataclass(frozen=True, slots=True)
class Newest:
    """One row for each key."""

    rows: pa.Table
    """All columns of the table."""
    is_gone: pa.Array
    kept: dict[str, pa.Array]
    """By column, whether its value is the one that the table has; columns of which all are told are left out."""
    places: tuple[pa.Array, ...] = ()
    """Of each row the changes that it is made of, by their places: the newest one, and those that tell what it does not."""

    @property
    def must_wait(self) -> bool:
        """Whether a row that is written needs a value of the table."""
        there = pc.invert(self.is_gone)
        return any(pc.any(pc.and_(one, there)).as_py() for one in self.kept.values())

    def written(self) -> "Newest":
        """Without the rows that are gone."""
        return self.only(pc.invert(self.is_gone))

    def only(self, mask: pa.Array) -> "Newest":
        """Some of the rows."""
        kept = {name: one.filter(mask) for name, one in self.kept.items()}
        places = tuple(one.filter(mask) for one in self.places)
        return Newest(self.rows.filter(mask), self.is_gone.filter(mask), kept, places)

    def waiting(self) -> pa.Table:
        """As they travel: behind the table's own columns stand what is gone and what is kept."""
        rows = self.rows.append_column(_GONE, self.is_gone)
        for name, mask in self.kept.items():
            rows = rows.append_column(name, mask)
        return rows


def waited(rows: pa.Table, columns: int) -> Newest:
    """From how they travelled, of a table with so many columns; any of them may be called as what stands behind them."""
    masks = {
        name: rows.column(columns + 1 + place).combine_chunks()
        for place, name in enumerate(rows.column_names[columns + 1 :])
    }
    return Newest(rows.select(range(columns)), rows.column(columns).combine_chunks(), masks)


def newest(changes: pa.Table, key: Sequence[str]) -> Newest:
    """The newest change of each key, of decoded changes without problems."""
    row, change = (changes.column(name).combine_chunks() for name in ("row", "change"))
    columns = dict(zip(row.type.names, row.flatten(), strict=True))
    keys = [f"k{place}" for place in range(len(key))]
    flags = flags_of(change.field("kept"), key)
    wanted = pa.Table.from_arrays(
        [
            *(columns[name] for name in key),
            pa.array(range(len(row)), pa.int64()),
            _order(change),
            pc.equal(change.field("op"), "d"),
            *(flag for _, flag in flags),
        ],
        names=[*keys, "place", "moment", "is_delete", *(f"kept{place}" for place in range(len(flags)))],
    )
    found = ask(_sql(keys, len(flags)), wanted)
    picked = found["place"].combine_chunks()
    values = {name: column.take(picked) for name, column in columns.items()}
    kept: dict[str, pa.Array] = {}
    places = [picked]
    for place, (names, flag) in enumerate(flags):
        is_kept = flag.take(picked)
        told_at = found[f"told{place}"].combine_chunks()
        is_new = found["was_gone"].combine_chunks()
        from_table = pc.and_(is_kept, pc.and_(pc.is_null(told_at), pc.invert(is_new)))
        places.append(pc.if_else(is_kept, told_at, picked))
        values |= {name: columns[name].take(places[-1]) for name in names}
        if pc.any(from_table).as_py():
            kept |= dict.fromkeys(names, from_table)
    return Newest(
        pa.Table.from_arrays(list(values.values()), names=list(values)),
        pc.equal(change.field("op"), "d").take(picked),
        kept,
        tuple(places),
    )


def _sql(keys: Sequence[str], flags: int) -> str:
    by = ", ".join(keys)
    if not flags:
        return f"SELECT max_by(place, moment) AS place FROM given GROUP BY {by}"  # noqa: S608 (our own names)
    told = ", ".join(
        f"max_by(place, moment) FILTER (WHERE NOT is_delete AND NOT kept{place}) AS told{place}"
        for place in range(flags)
    )
    return f"""
        SELECT max_by(place, moment) AS place, bool_or(gone_at IS NOT NULL) AS was_gone, {told}
        FROM (SELECT *, max(moment) FILTER (WHERE is_delete) OVER (PARTITION BY {by}) AS gone_at FROM given)
        WHERE gone_at IS NULL OR moment >= gone_at GROUP BY {by}"""  # noqa: S608 (our own names)


def _order(change: pa.StructArray) -> pa.Array:
    """The place of each change among all, by offset and partition.

    A message that takes a row to another key has two changes, and both are of one key where only its text differs: the
    delete comes first.
    """
    at = pa.table(
        {
            "offset": change.field("offset"),
            "partition": change.field("partition"),
            "is_row": pc.not_equal(change.field("op"), "d").cast(pa.int8()),
        }
    )
    order = pc.sort_indices(at, sort_keys=[(name, "ascending") for name in at.column_names])
    return pc.inverse_permutation(order.cast(pa.int64()))


def flags_of(kept: pa.DictionaryArray, key: Sequence[str]) -> list[tuple[list[str], pa.Array]]:
    """The columns that changes keep, with which of the changes do.

    Those that the same changes keep are together: all that a schema lacks cost as much as one of them.
    """
    used = pc.unique(kept.indices).drop_null()
    sets = list(zip(used.to_pylist(), kept_names(kept.dictionary.take(used)), strict=True))
    alike: dict[tuple[int, ...], list[str]] = {}
    for name in sorted(frozenset[str]().union(*(names for _, names in sets)) - set(key)):
        alike.setdefault(tuple(number for number, names in sets if name in names), []).append(name)
    return [
        (names, pc.is_in(kept.indices, value_set=pa.array(numbers, pa.int32())))
        for numbers, names in alike.items()
    ]
