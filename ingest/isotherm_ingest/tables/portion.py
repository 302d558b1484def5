"""What one batch holds for one table, and the write that it becomes: what the table already has is left out."""

from collections.abc import Mapping
from dataclasses import dataclass

from isotherm_ingest.failures import TableRefused
from isotherm_ingest.plan.places import Hole, Kafka, Known, Place
from isotherm_ingest.sql.raw import Group
from isotherm_ingest.sql.survey import Survey
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.offsets import Position, Source


@dataclass(frozen=True, slots=True)
class Portion:
    """What one batch holds for one table."""

    view: str
    """The raw messages, as a view that every session sees."""
    batch: int
    groups: tuple[Group, ...]
    ranges: Mapping[Position, tuple[int, int]]
    """Of each Kafka partition: the first offset, and the one after the last."""
    kafka: Kafka
    """The table's topics when the batch was planned."""
    cluster: str
    known: Known | None = None
    """What was last known of the table."""

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

    def __init__(self, table: str, holes: tuple[Hole, ...]) -> None:
        super().__init__(
            f"{table} lacks changes: {'; '.join(map(str, holes[:3]))}. Put right what happened, or say `on_hole: backfill` "
            "(read again what Kafka still holds) or `on_hole: accept` (go on without them) in its stream, and start again"
        )
        self.holes = holes


@dataclass(frozen=True, slots=True)
class Prepared:
    """A write, ready to be tried."""

    now: TableNow
    place: Place
    columns: Mapping[str, str]
    key: tuple[str, ...]
    may_keep: tuple[str, ...]
    """Columns that a change may name in `kept`."""
    view: str
    from_offsets: Mapping[Position, int]
    source: Source
    survey: Survey
    valid_through_ms: int | None

    def still_fits(self, now: TableNow, from_offsets: Mapping[Position, int]) -> bool:
        """Whether the same rows are to be written to the same columns and partitions."""
        mine, other = self.now.table.metadata, now.table.metadata
        return (
            self.now.uuid == now.uuid
            and mine.current_schema_id == other.current_schema_id
            and mine.default_spec_id == other.default_spec_id
            and dict(self.from_offsets) == dict(from_offsets)
        )


def wanted_from(place: Place, portion: Portion) -> dict[Position, int] | None:
    """Below which offsets rows are left out, where the batch reaches below. None where the table has it all.

    Raises:
        Behind: the batch begins above what the table needs next. Writing it would make a hole.
    """
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
