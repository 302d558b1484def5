"""Stand-ins for the world outside: a control topic in memory, a clock that is told what time it is.

They pass the same contract tests as the real adapters (tests/contract).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from isotherm.commit_event import CommitEvent, encode
from isotherm.ports import Message


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


class MemoryEvents:
    """A member of a group that has the whole topic."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.position = 0
        self.committed = 0
        self.is_closed = False
        self.is_reachable = True

    def poll(self, timeout_s: float) -> Sequence[Message]:
        del timeout_s
        start, self.position = self.position, len(self.topic.messages)
        return [Message("control", 0, at, 0, self.topic.messages[at]) for at in range(start, self.position)]

    def drain(self, timeout_s: float) -> Sequence[Message] | None:
        return self.poll(timeout_s) if self.is_reachable else None

    def commit(self) -> None:
        self.committed = self.position

    def publish(self, event: CommitEvent) -> None:
        self.topic.messages.append(encode(event)[1])

    def owns(self, table_uuid: str) -> bool:
        del table_uuid
        return not self.is_closed

    def is_assigned(self) -> bool:
        return not self.is_closed

    def close(self) -> None:
        self.is_closed = True
