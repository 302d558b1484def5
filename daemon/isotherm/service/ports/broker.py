"""What the service needs of a broker: the control topic, other systems' topics, dead letters, holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from isotherm.contract.events import CommitEvent, Window


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the control topic, or of a source's."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Announced:
    """What another system's event says: where to look."""

    table: str
    """`namespace.table`."""
    snapshot_id: int | None
    """None where the table's newest is meant."""
    uuid: str | None = None
    """The table's, where the event names it: another table under the same name is not meant."""
    writer: str = ""
    """Who committed, as that system calls it."""


Decoder = Callable[[bytes | None], Announced | None]
"""Reads another system's events: None where a message announces no commit. Raises EventError."""


class EventSource(Protocol):
    """The control topic, as this daemon may read it."""

    def poll(self, timeout_s: float) -> Sequence[Message]:
        """New messages, at most some hundreds; empty when none came in time."""
        ...

    def drain(self, timeout_s: float) -> Sequence[Message] | None:
        """Every message up to the topic's present end; None where the end was not reached in time, or is far away."""
        ...

    def undo(self, messages: Sequence[Message]) -> None:
        """Hand these out again: they could not be saved."""
        ...

    def commit(self) -> None:
        """Never hand out again what was handed out so far; called after it was saved."""
        ...

    def publish(self, event: CommitEvent | Window) -> None:
        """Announce a snapshot, or say something of a window; returns when the broker has it. Raises NotAnnounced."""
        ...

    def owns(self, table_uuid: str) -> bool:
        """Whether this daemon maintains the table, as the group divides them now."""
        ...

    def tenure(self, table_uuid: str) -> int | None:
        """Since which assignment this daemon has the table without a break. Returns None where it does not have it."""
        ...

    def check_in(self) -> str | None:
        """Ask the broker whether we are still a live member that owns what we think we own.

        Returns the reason where we are not, else None. Called after what was read is saved.
        """
        ...

    def losses(self) -> Sequence[str]:
        """Why messages may have gone by unread since the last call, one sentence each."""
        ...

    def is_assigned(self) -> bool:
        """Whether the group has given this daemon its part of the topic."""
        ...

    def behind(self) -> int:
        """How many messages were not handed out yet, as far as this client knows. Asks nobody."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class SourceTopics(Protocol):
    """The topics of other systems, as this daemon may read them."""

    def poll(self, timeout_s: float, *, wanted: bool = True) -> Sequence[Message]:
        """New messages, at most some hundreds; empty when none came in time.

        Called in each turn, also where none are `wanted`: by that the group knows that we live. Then none come, but for
        those of a partition that has just become ours.
        """
        ...

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Never hand out again what lies before these offsets, by topic and Kafka partition.

        Called in each turn, after it was announced, set aside, let go or put off. What did not reach the broker is sent
        again. A partition that is not ours any more is passed over, and so is one with which the group is further.
        """
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class DeadLetters(Protocol):
    """Where messages go that nobody can read."""

    def put(self, message: Message, reason: str) -> None:
        """Take the message as it came; returns before it is safe."""
        ...

    def flush(self) -> None:
        """Return when all that was put is safe. Raises Unavailable; then it is given up."""
        ...


@dataclass(frozen=True, slots=True)
class KeyedReading:
    """What was read of such a topic: the newest of each key, with None for one that is over."""

    records: Mapping[str, bytes | None]
    is_whole: bool
    """It was read from the beginning: what is not in it is not on the topic."""


class KeyedTopic(Protocol):
    """A compacted topic that everybody reads as a whole: of what holds tables back, or of readers."""

    def read(self, timeout_s: float) -> KeyedReading | None:
        """What came since the last call, up to the topic's present end; None where it was not reached in time.

        The first call, and the first one after the topic was made again, gives all of it.
        """
        ...

    def write(self, key: str, value: bytes | None) -> None:
        """Keep a value under a key, or remove the key where the value is None. Raises Unavailable."""
        ...

    def close(self) -> None:
        """Let go of the broker."""
        ...
