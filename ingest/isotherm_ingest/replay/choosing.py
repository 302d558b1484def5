"""Which dead letters can become rows of their table, told before any message is read. Only values here.

A changelog takes a letter where Kafka still holds its message. A mirror has one row of each key, so a letter counts only where
everything that came after it can be read: a newer change of its key must not be overwritten.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.replay.letters import Letter
from isotherm_ingest.workers.late import At, Letters

AT_ONCE = 5_000
"""Letters of one commit. Its summary names them, and metadata.json has each summary."""
GAP = 10_000
"""Messages between two letters up to which all of them are read: it takes less than beginning to read elsewhere."""
SLACK_MS = 600_000
"""By so much the clocks of a topic's producers may differ."""


class Fate(StrEnum):
    """What came of a letter."""

    WRITTEN = "written"
    THERE = "there"
    """Its row is in the table, or an earlier replay has settled it."""
    SUPERSEDED = "superseded"
    """Newer changes have made what stands in its row's place."""
    BAD = "bad"
    """It cannot become a row still."""
    UNDECIDED = "undecided"
    """Nobody can tell any more whether something newer came."""
    WAITS = "waits"
    """The driver has not come to it yet."""
    OTHER = "other"
    """Its offset has no message of this table: it is another table's, or of a topic that is gone."""


Told = tuple[Fate, str]
"""With why, for people."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a table stands when letters are chosen."""

    is_mirror: bool
    next: Mapping[Position, int]
    """What the table needs next of each partition that can be read now."""
    kafka: Kafka
    settled: frozenset[At] = frozenset()
    compacted: frozenset[str] = frozenset()
    is_mixed: bool = False
    """Whether rows of one source came in several topics, between which there is no order."""
    unread: frozenset[Position] = frozenset()
    """Partitions of which it has something, and that cannot be read now."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be tried, and what is known without trying."""

    tried: tuple[Letter, ...]
    told: Mapping[At, Told] = field(default_factory=dict)


def choose(letters: Iterable[Letter], stand: Stand) -> Choice:
    """Tell letters that may be tried from those that may not."""
    tried: list[Letter] = []
    told: dict[At, Told] = {}
    for letter in letters:
        said = _known(letter, stand)
        if said is None:
            tried.append(letter)
        else:
            told[letter.at] = said
    return Choice(tuple(tried), told)


def _known(letter: Letter, stand: Stand) -> Told | None:
    topic, number, offset = letter.at
    position = topic, number
    if letter.at in stand.settled:
        return Fate.THERE, "an earlier replay has settled it"
    if position not in stand.next:
        return Fate.UNDECIDED, f"partition {number} cannot be read now"
    if offset >= stand.next[position]:
        return Fate.WAITS, "the driver has still to read it"
    if offset < stand.kafka.starts.get(position, 0):
        return Fate.UNDECIDED, "Kafka no longer holds it"
    return _why_no_mirror(letter, stand) if stand.is_mirror else None


def _why_no_mirror(letter: Letter, stand: Stand) -> Told | None:
    topic = letter.at[0]
    if topic in stand.compacted:
        return Fate.UNDECIDED, "its topic is compacted: a newer delete may be gone"
    if stand.is_mixed:
        return Fate.UNDECIDED, "its table came in several topics"
    if any(one[0] == topic for one in stand.unread):
        return Fate.UNDECIDED, "not all partitions of its topic can be read now"
    cuts = (cut for one, some in stand.kafka.cuts.items() if one[0] == topic for cut in some)
    if any(cut.seen_ms >= letter.sent_ms for cut in cuts):
        return Fate.UNDECIDED, "Kafka has lost newer messages of its topic"
    return None


def slices(letters: Iterable[Letter], at_once: int = AT_ONCE) -> list[tuple[Letter, ...]]:
    """Letters of one commit each, the oldest first."""
    in_order = sorted(letters, key=lambda one: (one.moment_ms, one.at))
    return [tuple(in_order[at : at + at_once]) for at in range(0, len(in_order), at_once)]


def wanted(letters: Iterable[Letter]) -> Letters:
    """The letters, as workers look for them."""
    found: dict[Position, dict[int, int]] = {}
    for letter in letters:
        found.setdefault(letter.at[:2], {})[letter.at[2]] = letter.moment_ms
    return found


def pieces(letters: Letters) -> list[Ranges]:
    """What is read for the letters alone."""
    found: list[Ranges] = []
    for position, offsets in sorted(letters.items()):
        first = last = min(offsets)
        for offset in sorted(offsets):
            if offset - last > GAP:
                found.append({position: (first, last + 1)})
                first = offset
            last = offset
        found.append({position: (first, last + 1)})
    return found


def spans(letters: Letters, stand: Stand, since: Mapping[Position, int]) -> Ranges:
    """What is read for all that came since: of each partition from its first letter on, to what the table needs next.

    With the partitions of a topic a key may have moved, so all of them are read, from the first message that may be newer.

    Args:
        letters: those of one commit.
        stand: where the table stands.
        since: of each partition the first message of about the time of the oldest letter; -1 where none is as new.
    """
    topics = {topic for topic, _ in letters}
    found: Ranges = {}
    for position, end in sorted(stand.next.items()):
        if position[0] in topics:
            first = min(letters.get(position, (end,)))
            if stand.is_mirror and 0 <= (newer := since.get(position, -1)) < first:
                first = newer
            found[position] = (min(first, end), end)
    return found


def doubtful(letters: Iterable[Letter], stand: Stand, since: Mapping[Position, int]) -> frozenset[At]:
    """Of a mirror's letters those of which something newer may have been dropped from another partition of their topic."""
    starts, ends = stand.kafka.starts, stand.kafka.ends
    lost = {
        one
        for one, first in since.items()
        if one in stand.next
        and starts.get(one, 0) > 0
        and (first == starts[one] or starts[one] >= ends.get(one, 0))
    }
    return frozenset(
        letter.at
        for letter in letters
        if any(one[0] == letter.at[0] and one != letter.at[:2] for one in lost)
    )


def behind_truncates(
    letters: Iterable[Letter], truncates: Mapping[Position, int], others: Collection[At], stand: Stand
) -> dict[At, Told]:
    """What becomes of letters of before a truncate: it has emptied the table since, if it was one that empties.

    Args:
        letters: those of one commit.
        truncates: the last one of each partition.
        others: all letters that there are. A truncate that is one of these has emptied nothing.
        stand: where the table stands.
    """
    told: dict[At, Told] = {}
    for position, offset in truncates.items():
        is_sure = (*position, offset) not in others and not is_divided(stand, {position[0]})
        for letter in letters:
            if letter.at[0] == position[0] and (not is_sure or letter.at[2] < offset):
                told[letter.at] = (
                    (Fate.SUPERSEDED, "the table was emptied since")
                    if is_sure
                    else (Fate.UNDECIDED, "a truncate came that empties nothing, or whose place is not known")
                )
    return told


def is_divided(stand: Stand, topics: Collection[str]) -> bool:
    """Whether one of some topics has several partitions."""
    numbers = [topic for topic, _ in stand.next if topic in topics]
    return len(numbers) > len(set(numbers))
