"""What one batch holds for one table, and the write that it becomes: what the table already has is left out."""

from collections.abc import Mapping
from dataclasses import dataclass

from isotherm_ingest.sql.raw import Group
from isotherm_ingest.sql.survey import Survey
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.offsets import Position, Source


@dataclass(frozen=True, slots=True)
class Portion:
    """What one batch holds for one table."""

    view: str
    """The raw messages, as a view that every session sees."""
    query: str
    batch: int
    groups: tuple[Group, ...]
    ranges: Mapping[Position, tuple[int, int]]
    """Of each Kafka partition: the first offset, and the one after the last."""
    ends: Mapping[Position, int]
    """Where the topics end now."""
    topic_ids: Mapping[str, str]
    cluster: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A write, ready to be tried."""

    now: TableNow
    columns: Mapping[str, str]
    key: tuple[str, ...]
    unavailable: tuple[str, ...]
    """Columns in which a value may be kept."""
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


def wanted_from(source: Source, portion: Portion) -> dict[Position, int] | None:
    """Below which offsets rows are left out, where the batch reaches below. None where the table has it all."""
    from_offsets: dict[Position, int] = {}
    lacks = False
    for position, (first, end) in portion.ranges.items():
        known = offsets.next_offset(source.vector, position) or 0
        lacks = lacks or known < end
        if known > first:
            from_offsets[position] = known
    return from_offsets if lacks else None
