"""Dead letters whose cause was mended: of all that is read, what they make becomes rows of their table, and nothing else.

A mirror's letters are looked at twice. The first look tells the table's keys that they speak of. The second one reads all that
came to these keys since: what stands there now was made by the newest change, or keeps values of older ones. Where a letter is
one of these, the row is written once more; where none is, newer changes have superseded them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.database import ask
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.workers.newest import Newest

At = tuple[str, int, int]
"""A message: topic, partition and offset."""
Letters = Mapping[Position, Mapping[int, int]]
"""By offset, the time of the message, in milliseconds: another one may have its offset where its topic was made again."""
APPLIED = "applied"


def only(batch: pa.RecordBatch, letters: Letters) -> pa.RecordBatch:
    """Of messages as they are read, those that are letters."""
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "timestamp"))
    return batch.filter(
        pa.array(
            [
                letters.get((topic, number), {}).get(offset) == moment
                for topic, number, offset, moment in zip(*columns, strict=True)
            ],
            pa.bool_(),
        )
    )


@dataclass(frozen=True, slots=True)
class Made:
    """What came of letters that can be decoded."""

    rows: frozenset[At] = frozenset()
    """Those that make rows, or values in them, or take rows away. At a first look: those of the table."""
    unsure: frozenset[At] = frozenset()
    """Those with a key that came in another partition, too: nobody knows which change is newer."""

    def also(self, other: "Made") -> "Made":
        """Those of both."""
        return Made(self.rows | other.rows, self.unsure | other.unsure)

    def as_json(self) -> bytes:
        """As it travels."""
        return json.dumps([sorted(self.rows), sorted(self.unsure)]).encode()


def made_of(text: bytes) -> Made:
    """From how it travelled."""
    rows, unsure = (frozenset((str(t), int(p), int(o)) for t, p, o in some) for some in json.loads(text))
    return Made(rows, unsure)


@dataclass(frozen=True)
class Late:
    """What of a table's messages are letters."""

    letters: Mapping[Position, frozenset[int]]
    """Those that may make rows."""
    keys: bytes | None = None
    """Of a mirror: the keys that letters speak of. None: they are still to be learned."""

    @cached_property
    def _keys(self) -> pa.Table:
        return pa.ipc.open_stream(pa.py_buffer(self.keys)).read_all()

    def of_keys(self, changes: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
        """Those of some changes that are of one of the keys, where these are known."""
        if self.keys is None or not changes.num_rows:
            return changes
        names = [f"k{place}" for place in range(len(key))]
        mine = pa.Table.from_arrays(keys_of(changes, key), names=names)
        place = pa.array(range(len(changes)), pa.int64())
        both = pa.concat_tables(
            [
                mine.append_column("place", place),
                self._keys.rename_columns(names).append_column(
                    "place", pa.nulls(self._keys.num_rows, pa.int64())
                ),
            ]
        )
        found = ask(
            "SELECT place FROM (SELECT place, bool_or(place IS NULL) OVER (PARTITION BY "  # noqa: S608 (our own names)
            f"{', '.join(names)}) AS is_wanted FROM given) WHERE is_wanted AND place IS NOT NULL ORDER BY place",
            both,
        )
        return changes.take(found["place"].combine_chunks())

    def with_applied(self, left: pa.RecordBatch, broken: pa.RecordBatch) -> pa.RecordBatch:
        """Deletes of rows that went to another key. Those of messages that are no rows still were applied when they came.

        Their problem says so, and they are no letters' by that.
        """
        columns = (broken.column(name).to_pylist() for name in ("partition", "offset"))
        applied = set(zip(*columns, strict=True))
        change = left.column("change")
        where = zip(*(change.field(name).to_pylist() for name in ("partition", "offset")), strict=True)
        told = pa.array([APPLIED if one in applied else None for one in where], pa.string())
        fields = [told if one.name == "problem" else change.field(one.name) for one in change.type]
        return pa.RecordBatch.from_arrays(
            [left.column("row"), pa.StructArray.from_arrays(fields, fields=list(change.type))],
            schema=left.schema,
        )

    def among(self, changes: pa.Table) -> list[At | None]:
        """Of each change the letter that it is, or None."""
        change = changes.column("change").combine_chunks()
        columns = (change.field(name).to_pylist() for name in ("topic", "partition", "offset", "problem"))
        return [
            one[:3] if one[3] is None and one[2] in self.letters.get(one[:2], ()) else None
            for one in zip(*columns, strict=True)
        ]

    def made(self, changes: pa.Table) -> Made:
        """The letters among changes that each make a row."""
        return Made(frozenset(one for one in self.among(changes) if one is not None))

    def chosen(self, found: Newest, changes: pa.Table, key: Sequence[str]) -> tuple[Newest, Made]:
        """The rows that letters have a part in, where it is known that nothing newer came; with these letters.

        A letter may speak of two keys. Where one of them is unsure, nothing of the letter is written.
        """
        letters, in_several = self.among(changes), _in_several_partitions(changes, key)
        unsure = {one for one, is_one in zip(letters, in_several, strict=True) if is_one and one is not None}
        parts = [
            (
                in_several[places[0]],
                {one for at in places if at is not None and (one := letters[at]) is not None},
            )
            for places in zip(*(one.to_pylist() for one in found.places), strict=True)
        ]
        known = -1
        while known < len(unsure):
            known = len(unsure)
            for is_unsure, mine in parts:
                if is_unsure or mine & unsure:
                    unsure |= mine
        wanted = [bool(mine) and not is_unsure and not mine & unsure for is_unsure, mine in parts]
        rows = {one for (_, mine), is_wanted in zip(parts, wanted, strict=True) if is_wanted for one in mine}
        return found.only(pa.array(wanted, pa.bool_())), Made(frozenset(rows), frozenset(unsure))


def keys_of(changes: pa.RecordBatch | pa.Table, key: Sequence[str]) -> list[pa.Array]:
    """The key of each change."""
    row = changes.column("row")
    row = row.combine_chunks() if isinstance(row, pa.ChunkedArray) else row
    # By place: a name that begins with a dot would be a path.
    return [pc.struct_field(row, [row.type.get_field_index(name)]) for name in key]


def _in_several_partitions(changes: pa.Table, key: Sequence[str]) -> list[bool]:
    """Of each change whether its key came in several partitions. Their offsets have no order."""
    change = changes.column("change").combine_chunks()
    names = [f"k{place}" for place in range(len(key))]
    given = pa.Table.from_arrays(
        [
            *keys_of(changes, key),
            change.field("topic"),
            change.field("partition"),
            pa.array(range(len(changes)), pa.int64()),
        ],
        names=[*names, "topic", "number", "place"],
    )
    by = f"OVER (PARTITION BY {', '.join(names)})"
    found = ask(
        f"SELECT min(topic) {by} <> max(topic) {by} OR min(number) {by} <> max(number) {by} AS is_unsure "  # noqa: S608
        "FROM given ORDER BY place",
        given,
    )
    is_unsure: list[bool] = found["is_unsure"].to_pylist()
    return is_unsure
