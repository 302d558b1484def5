"""What holds something back: a table, one of its partitions, or a daemon."""

from dataclasses import dataclass
from enum import StrEnum

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.refusals import Reason


class HoldKind(StrEnum):
    """What can hold a table, a partition or a daemon back."""

    HALT = "halt"
    """Something must not be: nothing is done to the table until a person has looked."""
    PAUSE = "pause"
    """A person said so."""
    QUARANTINE = "quarantine"
    """A partition's jobs fail: it waits before it is tried again."""
    LEDGER = "ledger"
    """A daemon's ledger was lost: it deletes nothing until a person has said that it may."""


@dataclass(frozen=True, slots=True)
class PartSize:
    """What one job of a partition may read, because a larger one did not end in its time, or in its memory."""

    bytes: int
    at_ms: int
    """When such a job ended last."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What holds back a table, one of its partitions, or a daemon."""

    kind: HoldKind
    uuid: str
    """Of the table; for LEDGER, of the ledger."""
    name: str
    """The table's, for people."""
    why: str
    at_ms: int
    partition: PartitionKey | None = None
    until_ms: int | None = None
    """It ends by itself then. Where this is None, a person ends it, or a job that went well."""
    failures: int = 0
    """How often in a row the partition's jobs failed."""
    under: str = ""
    """Its key, where a newer version wrote it in a way that this one cannot read."""
    part: PartSize | None = None
    """What its partition's jobs may read, also once it holds nothing back any more (`core.part_size`). None: as all others."""

    @property
    def key(self) -> str:
        """What tells it from every other, as the topic knows it."""
        return self.under or hold_key(self.uuid, self.kind, self.partition)

    def holds(self, now_ms: int) -> bool:
        """Whether it holds something back now."""
        return self.until_ms is None or self.until_ms > now_ms


def hold_key(uuid: str, kind: HoldKind, partition: PartitionKey | None = None) -> str:
    """The key of a hold on the topic: `<uuid>/<kind>`, and the partition where it is one partition's."""
    return f"{uuid}/{kind}" if partition is None else f"{uuid}/{kind}/{partition}"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A partition, or an action on a table, that failed: how often in a row, and until when it is left alone."""

    until_ms: int
    failures: int
    why: str
    part: PartSize | None = None
    """What its jobs may read. None: as all others."""

    @property
    def is_of_move(self) -> bool:
        """Whether it says only that its files stay in an older partition spec: all other work on them goes on."""
        return self.why.startswith(f"{Reason.OUTPUT_SPEC}: ")
