"""Whether somebody else rewrites a table's data files too, and what is known of that.

A rewrite of theirs that is open while equality deletes become position deletes brings the deleted rows back
(docs/designs/replace-commit.md), and nothing tells of an open one. Only what they have committed is seen, and the snapshots
of that expire. So a rewrite counts for long after it was seen. And where a table is known for a short time alone, nobody can
say that there is no second rewriter. Equality deletes are applied meanwhile: that costs more work, and no row.
"""

from dataclasses import dataclass, replace

from isotherm.core.model.tables import Snapshot, TableFacts
from isotherm.core.units import DAY_MS, clock_text, span_text

REMEMBERED_MS = 100 * DAY_MS
"""Longer than a quarter: jobs of a month or a quarter come again."""
WATCHED_MS = 14 * DAY_MS
"""A weekly job comes twice in it. Of a monthly one the first may be met unseen, as anybody's first rewrite may be."""


@dataclass(frozen=True, slots=True)
class Watch:
    """For how long a table was watched, and whom that has shown."""

    since_ms: int
    """Since when every commit to it was seen; 0 where that is from its first one on."""
    rewritten_in: int | None = None
    """The newest snapshot by which somebody else rewrote data files, or None where none was seen."""
    rewritten_at_ms: int = 0
    """When that was seen first: the times of commits are others' words."""

    def after_gap(
        self, oldest: Snapshot | None, followed_through: int, now_ms: int, *, is_whole: bool
    ) -> "Watch":
        """The same once a table was read from scratch: what expired unseen has not been watched.

        Args:
            oldest: the first of the head's ancestors without a gap.
            followed_through: the last sequence number of the version up to which its history was followed before.
            now_ms: the time.
            is_whole: whether that is the table's first commit.
        """
        # In tables of format 1 each snapshot has the number 0, and no gap shows.
        if oldest is None or 0 < oldest.sequence_number <= followed_through + 1:
            return self
        return replace(self, since_ms=known_since_ms(oldest, now_ms, is_whole=is_whole))

    def sees(self, snapshot_id: int | None, now_ms: int) -> "Watch":
        """The same with the newest rewrite that can be seen now, if any can."""
        if snapshot_id is None or snapshot_id == self.rewritten_in:
            return self
        return replace(self, rewritten_in=snapshot_id, rewritten_at_ms=now_ms)

    def told(self, facts: TableFacts, now_ms: int) -> TableFacts:
        """The facts of a table with what its metadata has forgotten."""
        counts = now_ms - self.rewritten_at_ms < REMEMBERED_MS
        remembered = self.rewritten_in if counts else None
        is_known = now_ms - self.since_ms >= WATCHED_MS
        return replace(
            facts,
            rewritten_in=remembered if facts.rewritten_in is None else facts.rewritten_in,
            watched_since_ms=None if is_known else self.since_ms,
        )


def known_since_ms(oldest: Snapshot | None, now_ms: int, *, is_whole: bool) -> int:
    """Since when a table's own history tells all that was done to it; 0 where that is from its first commit on."""
    if oldest is None or is_whole:
        return 0
    return min(oldest.committed_at_ms, now_ms)


def why_not_converted(facts: TableFacts) -> str | None:
    """Why equality deletes of a table must not become position deletes, or None where they may."""
    if facts.rewritten_in is not None:
        who = f"{facts.rewritten_by} rewrites" if facts.rewritten_by else "another writer rewrites"
        return (
            f"{who} files of this table too (snapshot {facts.rewritten_in}) and could bring deleted rows back"
        )
    if facts.watched_since_ms is not None:
        return (
            f"its commits are known since {clock_text(facts.watched_since_ms)}, and it takes {span_text(WATCHED_MS)} to "
            "see whether another writer rewrites files of this table too, who could bring deleted rows back"
        )
    return None
