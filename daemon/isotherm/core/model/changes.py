"""What one snapshot did to each partition."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import Origin
from isotherm.core.model.files import NO_FILES, FileKind, FileStats


@dataclass(frozen=True, slots=True)
class PartitionDelta:
    """What one snapshot did to one partition."""

    data: Mapping[int, FileStats] = field(default_factory=dict)
    """Change of the size histogram of data files, by bucket; added less removed."""
    deletes: Mapping[FileKind, FileStats] = field(default_factory=dict)
    """Change of delete files by kind; added less removed."""
    added: FileStats = NO_FILES
    """Files of every kind that came."""
    removed: FileStats = NO_FILES
    """Files of every kind that left."""
    reached_ms: int | None = None
    """How far the event time of the rows that came reaches, by the upper bounds of the time column in the manifests.
    None where no file says so."""
    delete_sizes: Mapping[int, FileStats] = field(default_factory=dict)
    """The part of `deletes` that is position deletes, by size bucket. Empty where nobody knows it."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one snapshot did to each partition, read from the manifests that it added."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_at_ms: int
    operation: str
    origin: Origin
    partitions: Mapping[PartitionKey, PartitionDelta]
    manifests: tuple[tuple[str, int], ...] = ()
    """The manifests that were read for it, path and spec id, as often as they were, so that it can be held against
    the manifest list later."""
    valid_through_ms: int | None = None
    """Event time that the writer vouches for: nothing older is still to come, in the ordinary run of things."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """The counters of the summary (`is_counter`), for the comparison at every event."""

    @property
    def is_foreign_write(self) -> bool:
        """Whether it counts as a write of the stream: not ours, and not a rewrite of what was there."""
        return self.origin is not Origin.MAINTENANCE and self.operation != "replace"

    @property
    def is_foreign_rewrite(self) -> bool:
        """Whether somebody else has put data files in the place of others."""
        is_theirs = self.origin is not Origin.MAINTENANCE and self.operation == "replace"
        return is_theirs and any(any(delta.data.values()) for delta in self.partitions.values())
