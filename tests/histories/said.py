"""What writers and readers say of a table on the daemon's topics, beside the events of commits; and what follows from it."""

import random
from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from histories.promised import history
from isotherm.contract.events import Intent, encode
from isotherm.contract.readers import ReadPosition, encode_position
from support.lab import Lab, uuid_of

OPEN_FOR_MS = 10 * 60_000
"""Shorter than what a daemon caps it to."""
INTENT, READER = 0.15, 0.1
"""How often a writer says before it writes what it will touch, and closes it late or never; how often a reader says where it is."""


@dataclass
class Said:
    """What was said of one table."""

    lab: Lab
    name: str
    open: list[tuple[int, int]] = field(default_factory=list)
    """From when until when a writer meant to write to any partition."""
    positions: dict[str, int] = field(default_factory=dict)
    """By reader: the snapshot up to which it has read."""

    def speak(self, chance: random.Random, table: Table) -> list[str]:
        """Somebody may say something now; gives it in words."""
        told, now_ms = [], self.lab.now_ms()
        uuid, head = uuid_of(table), table.metadata.current_snapshot_id
        if chance.random() < INTENT:
            until_ms = now_ms + OPEN_FOR_MS
            intent = Intent(
                table_uuid=uuid,
                table=self.name,
                intent_id=f"intent-{len(self.open)}",
                writer="merging",
                state="open",
                at_ms=now_ms,
                expires_at_ms=until_ms,
            )
            self.lab.topic.messages.append(encode(intent)[1])
            self.open.append((now_ms, until_ms))
            told.append("an intent")
        if chance.random() < READER and head is not None:
            reader = chance.choice(("slow", "slower"))
            at = chance.choice(history(table.metadata)).snapshot_id
            position = ReadPosition(
                table_uuid=uuid, table=self.name, reader=reader, snapshot_id=at, at_ms=now_ms
            )
            self.lab.readers.append((position.key, encode_position(position)))
            self.positions[reader] = at
            told.append(f"{reader} has read {at}")
        elif self.positions and chance.random() < READER:
            reader = chance.choice(sorted(self.positions))
            del self.positions[reader]
            self.lab.readers.append((f"{uuid}/{reader}", None))
            told.append(f"{reader} has gone")
        return told

    def lost(self, before: TableMetadata, after: TableMetadata) -> list[str]:
        """What readers need, of what was retained before, and is gone."""
        left, main = {one.snapshot_id for one in history(after)}, [one.snapshot_id for one in history(before)]
        found = []
        for reader, at in sorted(self.positions.items()):
            needed = main[: main.index(at) + 1] if at in main else []
            if gone := [one for one in needed if one not in left]:
                found.append(f"{reader} has read {at}, and {gone} of it and what came later are gone")
        return found

    def is_open(self, at_ms: int) -> bool:
        """Whether a writer meant to write to any partition at a time."""
        return any(since_ms <= at_ms < until_ms for since_ms, until_ms in self.open)
