"""Stand-ins for the world outside: a control topic in memory, a clock that is told what time it is.

They pass the same contract tests as the real adapters (tests/support/contracts).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isotherm.contract.events import CommitEvent, EventError, decode, encode
from isotherm.service.ports import KeyedReading, Message, Refused, Unavailable


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    at_ms: int = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000

    def advance(self, seconds: float) -> None:
        self.at_ms += int(seconds * 1000)


@dataclass
class Topic:
    """One Kafka partition in memory."""

    messages: list[bytes | None] = field(default_factory=list)


def _key(value: bytes | None) -> bytes | None:
    """The key that a writer who knows the contract gives a message."""
    try:
        event = decode(value)
    except EventError:
        return None
    return None if event is None else event.table_uuid.encode()


class MemoryKeyedTopic:
    """A reader and writer of the topic with what holds tables back."""

    def __init__(self, records: list[tuple[str, bytes | None]]) -> None:
        self.records = records
        self.position: int | None = None
        self.is_reachable = True
        self.largest = 1_000_000

    def read(self, timeout_s: float) -> KeyedReading | None:
        del timeout_s
        if not self.is_reachable:
            return None
        is_whole = self.position is None or self.position > len(self.records)
        start, self.position = 0 if is_whole else self.position, len(self.records)
        return KeyedReading(dict(self.records[start:]), is_whole)

    def write(self, key: str, value: bytes | None) -> None:
        if not self.is_reachable:
            raise Unavailable("the broker is away")
        if value is not None and len(value) > self.largest:
            raise Refused("the broker takes no record of this size")
        self.records.append((key, value))

    def close(self) -> None:
        self.is_reachable = False


class MemoryEvents:
    """A member of a group that has the whole topic."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.position = 0
        self.committed = 0
        self.is_closed = False
        self.is_reachable = True
        self.is_member = True
        self.term = 1
        self.lost: list[str] = []
        self.elsewhere: set[str] = set()
        """Tables, by uuid, that another daemon of the group has."""

    def poll(self, timeout_s: float) -> Sequence[Message]:
        del timeout_s
        start, self.position = self.position, len(self.topic.messages)
        values = self.topic.messages[start : self.position]
        return [Message("control", 0, at, 0, value, _key(value)) for at, value in enumerate(values, start)]

    def drain(self, timeout_s: float) -> Sequence[Message] | None:
        return self.poll(timeout_s) if self.is_reachable else None

    def undo(self, messages: Sequence[Message]) -> None:
        if messages:
            self.position = min(message.offset for message in messages)

    def commit(self) -> None:
        self.committed = self.position

    def publish(self, event: CommitEvent) -> None:
        self.topic.messages.append(encode(event)[1])

    def owns(self, table_uuid: str) -> bool:
        return not self.is_closed and bool(self.term) and table_uuid not in self.elsewhere

    def tenure(self, table_uuid: str) -> int | None:
        return self.term if self.owns(table_uuid) else None

    def check_in(self) -> str | None:
        return None if self.is_member and not self.is_closed else "somebody else is"

    def losses(self) -> Sequence[str]:
        found, self.lost = self.lost, []
        return found

    def is_assigned(self) -> bool:
        return not self.is_closed

    def behind(self) -> int:
        return len(self.topic.messages) - self.position

    def close(self) -> None:
        self.is_closed = True


class MemorySources:
    """A member of the sources' group that has every topic; what the group committed outlives it."""

    def __init__(self, topics: dict[str, Topic], committed: dict[str, int]) -> None:
        self.topics = topics
        self.committed = committed
        self.positions = {name: committed.get(name, 0) for name in topics}
        self.polls = 0

    def poll(self, timeout_s: float, *, wanted: bool = True) -> Sequence[Message]:
        del timeout_s
        self.polls += 1
        found = []
        if not wanted:
            return found
        for name, topic in self.topics.items():
            start, self.positions[name] = self.positions[name], len(topic.messages)
            new = enumerate(topic.messages[start:], start)
            found += [Message(name, 0, at, 0, value, b"a key") for at, value in new]
        return found

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        for (name, _), offset in offsets.items():
            if offset > self.committed.get(name, 0):
                self.committed[name] = offset

    def close(self) -> None:
        pass


@dataclass
class MemoryLetters:
    """A dead-letter topic: what was put is safe after a flush, if the broker answers."""

    is_reachable: bool = True
    put_so_far: list[tuple[Message, str]] = field(default_factory=list)
    safe: list[tuple[Message, str]] = field(default_factory=list)

    def put(self, message: Message, reason: str) -> None:
        self.put_so_far.append((message, reason))

    def flush(self) -> None:
        letters, self.put_so_far = self.put_so_far, []
        if not self.is_reachable:
            raise Unavailable("topic dead-letters: no answer")
        self.safe += letters
