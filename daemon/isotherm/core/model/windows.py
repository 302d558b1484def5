"""Windows that writers grant: for a while they leave a table alone, and what is hot in it may be compacted."""

from dataclasses import dataclass

from isotherm.contract.identity import PartitionKey


@dataclass(frozen=True, slots=True)
class Grant:
    """A window of a table that is open now: every writer that is known to write the table has granted it."""

    window_id: str
    writers: tuple[str, ...]
    until_ms: int
    """When the daemon's part of it is over, by the clock of the view. From then on no request of a job goes out."""
    foreign_commits: int
    """The table's count of foreign commits when it was granted: one more, and it is over."""
    partitions: frozenset[PartitionKey] | None = None
    """Those that may be compacted, or None for any."""

    def covers(self, key: PartitionKey, foreign_commits: int, now_ms: int) -> bool:
        """Whether a partition of the table, at such a count of foreign commits, is left alone by its writers now."""
        return (
            now_ms < self.until_ms
            and foreign_commits == self.foreign_commits
            and (self.partitions is None or key in self.partitions)
        )

    @property
    def who(self) -> str:
        """Its writers, in words."""
        kind = "writer" if len(self.writers) == 1 else "writers"
        return f"the {kind} {', '.join(self.writers)}"
