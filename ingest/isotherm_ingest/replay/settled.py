"""What a replay says in the summary of its snapshot: which letters are settled with it.

A second replay leaves these out, and one that does not know whether its commit has landed looks for its own. Where such a
snapshot has expired or was rolled back, its letters are looked at again: nothing stands on this but the saving.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping

from isotherm_ingest.tables.offset_vector import REPLAYED
from isotherm_ingest.workers.late import At


def encode(replay: str, letters: Collection[At]) -> str:
    """Some letters as ranges of offsets, under the id of the replay."""
    topics: dict[str, dict[str, str]] = {}
    for (topic, number), offsets in _by_position(letters).items():
        topics.setdefault(topic, {})[str(number)] = ",".join(
            str(first) if first == last else f"{first}-{last}" for first, last in _ranges(offsets)
        )
    return json.dumps({"id": replay, "topics": topics}, separators=(",", ":"))


def settled(summaries: Iterable[Mapping[str, str]]) -> frozenset[At]:
    """All letters that some snapshots have settled. What cannot be read says nothing."""
    found: set[At] = set()
    for summary in summaries:
        try:
            found.update(_decoded(summary.get(REPLAYED, "{}")))
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
    return frozenset(found)


def _decoded(text: str) -> Iterator[At]:
    for topic, partitions in json.loads(text).get("topics", {}).items():
        for number, ranges in partitions.items():
            for one in ranges.split(","):
                first, _, last = one.partition("-")
                for offset in range(int(first), int(last or first) + 1):
                    yield str(topic), int(number), offset


def _by_position(letters: Collection[At]) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for topic, number, offset in sorted(letters):
        found.setdefault((topic, number), []).append(offset)
    return found


def _ranges(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for one in offsets:
        if first is None or last is None or one != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = one
        last = one
    if first is not None and last is not None:
        yield first, last
