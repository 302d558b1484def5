"""The simulated brokers: a control topic with a group, and the compacted topic with what holds tables back."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from isotherm.contract.events import CommitEvent, Intent, encode
from isotherm.service.ports import KeyedReading, Message, Unavailable
from simulation.world import World


@dataclass
class Brokers:
    """What the brokers keep."""

    world: World
    control: list[Message] = field(default_factory=list)
    first: int = 0
    """The first offset that is still there."""
    life: int = 0
    """Rises when the control topic is made again."""
    committed: int = 0
    owner: int | None = 0
    """The daemon to which the group has given the tables; None: nobody, for now."""
    term: int = 1
    holds: list[tuple[str, bytes | None]] = field(default_factory=list)

    def send(self, event: CommitEvent | Intent) -> None:
        """Put a message on the control topic."""
        value = encode(event)[1]
        place = self.first + len(self.control)
        key = event.table_uuid.encode()
        self.control.append(Message("control", 0, place, self.world.now_ms, value, key))

    def cut(self) -> None:
        """Retention takes the older half."""
        gone = len(self.control) // 2
        self.first += gone
        del self.control[:gone]

    def make_again(self) -> None:
        """Somebody deletes the control topic, and it is made again."""
        self.control.clear()
        self.first = self.committed = 0
        self.life += 1

    def give_to(self, owner: int | None) -> None:
        """The group gives the tables to another daemon, or takes them away for a moment."""
        self.owner = owner
        self.term += 1


class SimulatedEvents:
    """The control topic as one daemon may read it."""

    def __init__(self, brokers: Brokers, number: int) -> None:
        self._brokers, self._world, self._number = brokers, brokers.world, number
        self._life = brokers.life
        self._position = brokers.first  # open intents are read again from before their time-out
        self._term: int | None = None
        self._lost: list[str] = []
        self._is_closed = False

    def poll(self, timeout_s: float) -> Sequence[Message]:
        """New messages, and news of the group."""
        del timeout_s
        self._world.touch("poll the control topic")
        if self._world.may(self._world.faults.broker_away):
            return []
        self._hear()
        return self._new()

    def drain(self, timeout_s: float) -> Sequence[Message] | None:
        """Every message up to the end."""
        self._world.touch("read the control topic to its end")
        if self._world.may(self._world.faults.broker_away):
            self._world.tell("the control topic cannot be read to its end")
            self._world.now_ms += int(timeout_s * 1000)
            return None
        self._hear()
        messages = self._new()
        self._world.looked_to = self._position
        return messages

    def undo(self, messages: Sequence[Message]) -> None:
        """Hand these out again."""
        if messages:
            self._position = min(message.offset for message in messages)

    def commit(self) -> None:
        """What was handed out is saved."""
        self._brokers.committed = max(self._brokers.committed, self._position)

    def publish(self, event: CommitEvent) -> None:
        """Announce a snapshot."""
        self._world.touch("publish")
        if self._world.may(self._world.faults.broker_away):
            raise Unavailable("the broker is away")
        self._brokers.send(event)

    def owns(self, table_uuid: str) -> bool:
        """As far as this daemon knows."""
        del table_uuid
        return not self._is_closed and self._term is not None

    def tenure(self, table_uuid: str) -> int | None:
        """The assignment that this daemon knows of."""
        return self._term if self.owns(table_uuid) else None

    def check_in(self) -> str | None:
        """What the broker itself says."""
        self._world.touch("check in with the group")
        if self._world.may(self._world.faults.broker_away):
            return "the broker does not answer"
        if self._brokers.owner != self._number or self._brokers.term != self._term:
            return "the group has given the tables to others"
        return None

    def losses(self) -> Sequence[str]:
        """What was lost since the last call."""
        found, self._lost = self._lost, []
        return found

    def is_assigned(self) -> bool:
        """Whether the group has given this daemon anything."""
        return self._term is not None

    def behind(self) -> int:
        """What is there and was not handed out."""
        return self._brokers.first + len(self._brokers.control) - self._position

    def close(self) -> None:
        """Leave the group."""
        self._is_closed = True

    def _hear(self) -> None:
        mine = self._brokers.owner == self._number
        term = self._brokers.term if mine else None
        if term != self._term:
            self._term = term
            if mine:
                self._position = self._brokers.first
        if self._life != self._brokers.life:
            self._life, self._position = self._brokers.life, 0
            self._lost.append("the topic was made again")
        if self._position < self._brokers.first:
            self._lost.append("messages are gone unread")
            self._position = self._brokers.first

    def _new(self) -> Sequence[Message]:
        if self._term is None:
            return []
        messages = self._brokers.control[self._position - self._brokers.first :]
        self._position += len(messages)
        return messages


class SimulatedHolds:
    """The topic with what holds tables back, as one daemon reads it."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers, self._world = brokers, brokers.world
        self._position: int | None = None

    def read(self, timeout_s: float) -> KeyedReading | None:
        """What came since the last call."""
        del timeout_s
        self._world.touch("read the topic with holds")
        if self._world.may(self._world.faults.broker_away):
            return None
        is_whole, start = self._position is None, self._position or 0
        self._position = len(self._brokers.holds)
        return KeyedReading(dict(self._brokers.holds[start:]), is_whole)

    def write(self, key: str, value: bytes | None) -> None:
        """Keep a value under a key."""
        self._world.touch("write to the topic with holds")
        if self._world.may(self._world.faults.broker_away):
            raise Unavailable("the broker is away")
        self._brokers.holds.append((key, value))

    def close(self) -> None:
        """Let go of the broker."""
