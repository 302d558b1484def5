"""Offset vectors: which Kafka offset a table needs next, by topic and partition. The token of exactly once.

A vector stands in the summary of every snapshot that ingest commits, so it and the rows are one. Keyed by Kafka
positions and not by batch numbers, it stays true when batches are cut otherwise, or the checkpoint is lost: rows below
it are filtered out, whatever brought them back. Only values here.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from isotherm.contract.summary import (
    INGEST_PIPELINE,
    INGEST_TOKEN,
    property_name,
    valid_through_of,
)
from isotherm_ingest.plan.topic_partition import Position

Vector = Mapping[str, Mapping[int, int]]
"""Topic → Kafka partition → next offset that is needed."""

TOKEN_VERSION = "ingest.v"  # noqa: S105 (a summary key)

TOKEN_BATCH = "ingest.batch"  # noqa: S105

TOKEN_TABLE = "ingest.table-uuid"  # noqa: S105

REPLAYED = "ingest.replayed"
"""What a replay of dead letters has settled with this commit (`replay.settled`)."""

RECENT_TOKENS = 10
"""Newest tokens that are merged: a driver that hung for a while may have committed an older one last."""


class TokenError(ValueError):
    """A token that cannot be read; nobody may guess what it said."""


@dataclass(frozen=True, slots=True)
class Source:
    """A vector, with the identities that it is true for."""

    vector: Vector = field(default_factory=dict)
    cluster: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cuts: Mapping[Position, int] = field(default_factory=dict)
    """When the newest cut of a partition was seen that its offset knows of (`plan.cuts`)."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a table says of its own progress."""

    source: Source
    valid_through_ms: int | None = None
    is_known: bool = True
    """Whether it is of what the table is now; else nobody knows what that has."""


def tag_name(pipeline: str) -> str:
    """The tag that may hold the newest tokened snapshot."""
    return f"ingest-{pipeline}"


def merge(*vectors: Vector) -> dict[str, dict[int, int]]:
    """The largest offset of each partition."""
    merged: dict[str, dict[int, int]] = {}
    for vector in vectors:
        for topic, offsets in vector.items():
            into = merged.setdefault(topic, {})
            for partition, offset in offsets.items():
                into[partition] = max(offset, into.get(partition, 0))
    return merged


def vector_of(positions: Mapping[Position, int]) -> dict[str, dict[int, int]]:
    """Offsets by (topic, partition) as a vector."""
    return merge(*({topic: {partition: offset}} for (topic, partition), offset in positions.items()))


def positions_of(vector: Vector) -> dict[Position, int]:
    """A vector as offsets by (topic, partition)."""
    return {
        (topic, partition): offset
        for topic, offsets in vector.items()
        for partition, offset in offsets.items()
    }


def next_offset(vector: Vector, position: Position) -> int | None:
    """The next offset that is needed of a partition, or None where nothing is known."""
    return vector.get(position[0], {}).get(position[1])


def encode(source: Source) -> str:
    """The vector as compact JSON, the form in summary and property."""
    topics = {
        topic: {
            **({"id": source.topic_ids[topic]} if source.topic_ids.get(topic) else {}),
            "next": {str(partition): offset for partition, offset in sorted(offsets.items())},
            **({"cuts": cuts} if (cuts := _cuts_of(source, topic, offsets)) else {}),
        }
        for topic, offsets in sorted(source.vector.items())
    }
    return json.dumps(
        {**({"cluster": source.cluster} if source.cluster else {}), "topics": topics}, separators=(",", ":")
    )


def _cuts_of(source: Source, topic: str, partitions: Iterable[int]) -> dict[str, int]:
    return {str(one): source.cuts[topic, one] for one in sorted(partitions) if source.cuts.get((topic, one))}


def decode(text: str) -> Source:
    """The opposite of `encode`.

    Raises:
        TokenError: the text is no vector.
    """
    try:
        data = json.loads(text)
        vector = {
            topic: {int(partition): int(offset) for partition, offset in entry["next"].items()}
            for topic, entry in data["topics"].items()
        }
        ids = {topic: str(entry["id"]) for topic, entry in data["topics"].items() if entry.get("id")}
        cuts = {
            (topic, int(partition)): int(seen_ms)
            for topic, entry in data["topics"].items()
            for partition, seen_ms in entry.get("cuts", {}).items()
        }
        return Source(vector, str(data.get("cluster", "")), ids, cuts)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as err:
        raise TokenError(f"offset vector {text[:200]!r} cannot be read: {err}") from err


def tokens_in(pipeline: str, summaries: Iterable[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """Those summaries that have a token of the pipeline."""
    return (one for one in summaries if one.get(INGEST_PIPELINE) == pipeline and INGEST_TOKEN in one)


def find_token(
    pipeline: str,
    ancestors: Iterable[Mapping[str, str]],
    tagged: Mapping[str, str] | None,
    properties: Mapping[str, str],
    follows: Callable[[str], bool | None],
) -> Token | None:
    """What the table says: its newest tokens, the largest of each offset; where they have expired, tag or property.

    A property outlives a rollback. One that was taken from a snapshot that was rolled back says nothing of what the table
    has, so what it has is unknown.

    Args:
        pipeline: whose token.
        ancestors: summaries of main's snapshots, the newest first.
        tagged: the summary of the tagged snapshot, if that is no newer than the head.
        properties: the table's properties.
        follows: whether main still has what a property says, and no more; None where nobody can say, as where snapshots
            that came after it have expired: then it says nothing.
    """
    found: list[Source] = []
    valid_through: list[int] = []
    for summary in islice(tokens_in(pipeline, ancestors), RECENT_TOKENS):
        found.append(decode(summary[INGEST_TOKEN]))
        if (said := valid_through_of(summary)) is not None:
            valid_through.append(said)
    if (
        not found
        and tagged is not None
        and tagged.get(INGEST_PIPELINE) == pipeline
        and INGEST_TOKEN in tagged
    ):
        found.append(decode(tagged[INGEST_TOKEN]))
    if not found and (kept := properties.get(property_name(pipeline))) is not None:
        match follows(kept):
            case True:
                found.append(decode(kept))
            case False:
                return Token(Source(), is_known=False)
    if not found:
        return None
    return Token(newest(found), max(valid_through, default=None))


def newest(sources: Sequence[Source]) -> Source:
    """Several of one table, the newest first, as one: of each partition the largest offset of those that know of its last cut.

    An entry from before a topic was made again says nothing about the new topic.
    """
    ids = {topic: one for source in reversed(sources) for topic, one in source.topic_ids.items()}
    best: dict[Position, tuple[int, int]] = {}
    for source in sources:
        for position, offset in positions_of(source.vector).items():
            now = ids.get(position[0])
            if source.topic_ids.get(position[0], now) == now:
                said = source.cuts.get(position, 0), offset
                best[position] = max(said, best.get(position, said))
    return Source(
        vector_of({position: offset for position, (_, offset) in best.items()}),
        sources[0].cluster,
        ids,
        {position: cut for position, (cut, _) in best.items() if cut},
    )
