"""What one batch may hold for one table, the table as it is to be written, and what the workers have made of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.failures import TableRefused, WorkFailed
from isotherm_ingest.plan.known import Known
from isotherm_ingest.plan.resume_or_halt import Place
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.plan.truncates import Emptied, Truncates
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.offset_vector import Source
from isotherm_ingest.workers.late import Late, Made
from isotherm_ingest.workers.survey import Survey
from isotherm_ingest.workers.tasks import TableTask

File = Mapping[str, Any]
"""A data file, as JSON tells of it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Messages of one topic and one schema, and what they look like."""

    topic: str
    number: int
    """Of the schema."""
    schema: ChangeSchema
    is_met: bool = True
    """Whether the batch is known to have such a message."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, as the table calls them."""
        return tuple(replace(one, name=self.schema.in_table(one.name)) for one in self.schema.columns)

    @property
    def key(self) -> tuple[str, ...]:
        """The fields of the message key, as the table calls them."""
        return tuple(map(self.schema.in_table, self.schema.key))


@dataclass(frozen=True, slots=True)
class Portion:
    """What one batch may hold for one table."""

    batch: int
    groups: tuple[Group, ...]
    """The messages that are known to be the table's."""
    ranges: Mapping[Position, tuple[int, int]]
    """Of each Kafka partition: the first offset, and the one after the last."""
    kafka: Kafka
    """The table's topics when the batch was planned."""
    cluster: str
    known: Known | None = None
    """What was last known of the table."""
    passed: Mapping[Position, int] = field(default_factory=dict)
    """Below these offsets the front has been, and had nothing for the table."""
    truncates: Truncates = field(default_factory=Truncates)
    """Those of the ranges, as far as they are known."""
    late: Late | None = None
    """Of a replay: the dead letters that may become rows. All of the ranges stands below what the table needs next."""
    replayed: str = ""
    """What the commit of a replay says of the letters that are settled with it."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics of the ranges."""
        return frozenset(topic for topic, _ in self.ranges)


class Behind(RuntimeError):  # noqa: N818 (a state of the table, not a mistake)
    """The batch begins above what the table needs next; it must be brought up to there first."""

    def __init__(self, place: Place) -> None:
        super().__init__("the table is behind the batch")
        self.place = place


class Halted(TableRefused):
    """The table lacks changes, and its stream's `on_hole` leaves it to a person what to do."""

    def __init__(self, table: str, place: Place) -> None:
        more = f" and {len(place.halted) - 3} more" if len(place.halted) > 3 else ""
        super().__init__(
            f"{table} lacks changes: {'; '.join(map(str, place.halted[:3]))}{more}. Put right what happened, or say `on_hole: backfill` "
            "(read again what Kafka still holds) or `on_hole: accept` (go on without them) in its stream, and start again"
        )
        self.place = place


@dataclass(frozen=True, slots=True)
class Look:
    """A table that is to be written, as it was when its vector was read."""

    now: TableNow
    place: Place
    key: tuple[str, ...]
    groups: tuple[Group, ...]
    """Those whose rows fit."""
    refused: Mapping[Group, str]
    """Those whose rows do not, and why."""
    from_offsets: Mapping[Position, int]
    read: Source
    """What the table's vector was."""
    source: Source
    """What it will be."""
    valid_through_ms: int | None
    """What the table said before."""
    emptied: Emptied = field(default_factory=Emptied)
    """What truncates come to."""

    def still_fits(self, now: TableNow, read: Source, from_offsets: Mapping[Position, int]) -> bool:
        """Whether the same rows are to be written to the same columns and partitions, of a table that says the same.

        Of its other topics, too: what a rollback has taken from these meanwhile, its new vector would claim.

        What was written for an empty table keeps no value and no id of a row that came meanwhile.
        """
        mine, other = self.now.table.metadata, now.table.metadata
        return (
            self.now.uuid == now.uuid
            and mine.current_schema_id == other.current_schema_id
            and mine.default_spec_id == other.default_spec_id
            and (self.now.head is None) == (now.head is None)
            and self.read == read
            and dict(self.from_offsets) == dict(from_offsets)
        )


@dataclass(frozen=True, slots=True)
class Ready:
    """A portion that is to be written, and what the workers must know for it."""

    portion: Portion
    look: Look
    task: TableTask


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of rows that waited."""

    files: tuple[File, ...] = ()
    error: str | None = None
    """Why not all of them are written."""

    def check(self) -> None:
        """Raise WorkFailed where not all of them are written."""
        if self.error is not None:
            raise WorkFailed(self.error)


Fill = Callable[[bytes, tuple[str, ...]], Filled]
"""Writes rows that wait for values of the rows in whose place they come, which are given."""


@dataclass(frozen=True, slots=True)
class Done:
    """What the workers have made of a portion."""

    survey: Survey
    files: tuple[File, ...] = ()
    """Data files that no table knows yet."""
    keys: pa.Table | None = None
    """Of a mirror that has rows, the keys of all changes."""
    letters: Callable[[], Iterable[pa.Table]] = tuple
    """Messages that cannot be written."""
    letter_count: int = 0
    fill: Fill | None = None
    error: str | None = None
    made: Made = field(default_factory=Made)
    """Of a replay."""


def wanted_from(place: Place, portion: Portion) -> dict[Position, int] | None:
    """Below which offsets rows are left out, where the batch reaches below. None where the table has it all.

    Raises:
        Behind: the batch begins above what the table needs next. Writing it would make a hole. Or what was just found missing
            lies in other partitions, and may be older than what the batch has of the same keys.
    """
    for hole in place.told:
        if hole.position not in portion.ranges and place.next.get(hole.position, hole.resumes) < hole.resumes:
            raise Behind(place)
    from_offsets: dict[Position, int] = {}
    lacks = False
    for position, (first, end) in portion.ranges.items():
        needs = place.next[position]
        if needs < first:
            raise Behind(place)
        lacks = lacks or needs < end
        if needs > first:
            from_offsets[position] = needs
    return from_offsets if lacks else None


def is_at(place: Place, portion: Portion) -> bool:
    """Whether a table is where a replay was planned for: it needs nothing of the ranges, and what comes behind them next."""
    return not place.told and all(place.next.get(one) == end for one, (_, end) in portion.ranges.items())


def passed(place: Place, portion: Portion) -> dict[Position, int]:
    """What the table has, for all that is known, once letters of these partitions are rows of it.

    Between its own word and what it needs next lay nothing but letters. A driver without marks would begin there again.
    """
    letters = set() if portion.late is None else portion.late.letters.keys()
    return {one: place.next[one] for one in letters if one in place.next}
