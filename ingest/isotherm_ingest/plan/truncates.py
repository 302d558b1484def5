"""Whether a truncate empties a mirror: only where all that the table has is known to be of before it.

Debezium gives a truncate no key, and so no place among the messages of other partitions and topics. Without a known place it
empties nothing: a row that stays is told, and can be taken away; one that goes wrongly is gone.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from isotherm_ingest.plan.topic_partition import Position

UNORDERED = "truncate_unordered"
"""The reason of the dead letter."""
_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")
"""What Debezium replaces in the name of a topic that it makes for a table."""


@dataclass(frozen=True, slots=True)
class Truncates:
    """Those that the workers have found for one table."""

    newest: Mapping[Position, int] = field(default_factory=dict)
    """By Kafka partition, the offset of the last one."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many partitions their topics have, asked for after they were read: a topic that has one had no more before."""
    among_others: bool = False
    """Whether changes of another source were read beside them."""


@dataclass(frozen=True, slots=True)
class Emptied:
    """What they come to."""

    below: Mapping[Position, int] = field(default_factory=dict)
    """The table is emptied, and what stands below counts for nothing."""
    why_not: str = ""
    """Why it is not emptied, where there are some."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a table come from."""

    has: Collection[Position]
    """Of which Kafka partitions it has any."""
    sources: Mapping[str, Collection[tuple[str, str]]]
    """By topic of which messages come now, the schemas and tables that these name."""
    own: str = ""
    """The topic that is the table's by its own word: rows of others are of the same source."""
    is_of_one_source: bool = False
    """Whether its rows are of one source table, whatever its topic is called."""
    doubt: str = "nobody knows from which source the rows of the table are"
    """Why rows that it has may be of another source; empty where the table says that all are of one."""


def emptied(found: Truncates, needs: Mapping[Position, int], origin: Origin) -> Emptied:
    """What the truncates of a batch come to for a table that needs these offsets next."""
    mine = {one: offset for one, offset in found.newest.items() if offset >= needs.get(one, 0)}
    if not mine:
        return Emptied()
    why = next((why for one in sorted(mine) if (why := _why_unordered(one, found, needs, origin))), "")
    return Emptied(why_not=why) if why else Emptied(mine)


def _why_unordered(
    position: Position, found: Truncates, needs: Mapping[Position, int], origin: Origin
) -> str:
    """Why nobody knows that all rows of the table are of before a truncate; empty where that is known."""
    topic, _ = position
    mine = {one for one in {*origin.has, *needs} if one[0] == topic}  # a broker that is behind counts fewer
    if (count := found.counts[topic]) != 1 or mine - {position}:
        return (
            f"the topic has {max(count, len(mine | {position}))} partitions, between which there is no order"
        )
    others = ({one for one, _ in origin.has} | set(origin.sources)) - {topic}
    if others and origin.own != topic:
        return f"the table has rows of other topics, as of {min(others)}"
    if not origin.is_of_one_source and not all(
        _is_named_for(topic, *source) for source in origin.sources.get(topic, ())
    ):
        return "neither the topic (….schema.table) nor the table is named for the source, so it may have rows of others"
    if found.among_others:
        return "changes of another source have come beside it"
    return origin.doubt


def _is_named_for(topic: str, schema: str, table: str) -> bool:
    name = _NOT_IN_TOPICS.sub("_", f"{schema}.{table}")
    return bool(schema and table) and f".{topic}".endswith(f".{name}")
