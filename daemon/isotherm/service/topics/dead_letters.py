"""Sets aside messages that nobody can read: counts them, logs their position, and sends them to the dead-letter topic.

A flood of them fills no log: the first few of each batch get a line each, the rest are one number. If the dead-letter
topic does not answer, nothing waits for it. A message that it did not take is still at the position that the log gives.
"""

from dataclasses import dataclass, field

from isotherm.core.model.outside import Outside
from isotherm.core.observations import EventRejected, TrySoon
from isotherm.service.ports import DeadLetters, Listener, Message, Unavailable

TOLD_A_BATCH = 10
"""Messages of one batch that get a line of their own."""
MAX_REASON = 300
"""Characters. A complaint may quote the message, so it has a limit."""


@dataclass(slots=True)
class SetAside:
    """Takes messages that cannot be read."""

    listen: Listener
    letters: DeadLetters | None = None
    _told: int = 0
    _more: list[EventRejected] = field(default_factory=list)

    def __call__(self, message: Message, reason: str) -> None:
        """Set one message aside."""
        reason = reason[:MAX_REASON]
        size = len(message.value or b"")
        rejected = EventRejected(reason, message.topic, message.partition, message.offset, size)
        if self._told < TOLD_A_BATCH:
            self.listen(rejected)
            self._told += 1
        else:
            self._more.append(rejected)
        if self.letters is not None:
            self.letters.put(message, reason)

    def flush(self) -> None:
        """The batch is over; called before its offsets are committed."""
        if self._more:
            self.listen(_summed(self._more))
        if self._told and self.letters is not None:
            try:
                self.letters.flush()
            except Unavailable as err:
                self.listen(TrySoon("the dead-letter topic", str(err), Outside.BROKER))
        self._told, self._more = 0, []


def _summed(rejected: list[EventRejected]) -> EventRejected:
    """Many rejections as one, where the last of them stands."""
    last = rejected[-1]
    return EventRejected(
        f"{len(rejected)} more in the same batch, at last: {last.reason}",
        last.topic,
        last.kafka_partition,
        last.offset,
        sum(one.size_bytes for one in rejected),
        messages=len(rejected),
    )
