"""Which snapshots are still to be announced: a walk over a table's history, without I/O.

The truth is the table's ancestry, never the memory of having committed: whatever crashed, and whoever committed,
the walk from the head back to what was last announced finds every snapshot. A walk that cannot reach it has found
a gap (history was cut) or a rollback; both are told, neither stops the announcing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Link:
    """One snapshot, as far as the walk needs it."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """The last snapshot that was announced."""

    snapshot_id: int
    sequence_number: int


class Break(StrEnum):
    """Why what is announced does not follow on what was announced before."""

    NONE = ""
    GAP = "gap"
    """The oldest of them is not the child of the last announced one, whose children have expired unseen."""
    ROLLBACK = "rollback"
    """The last announced snapshot is not an ancestor of the head any more."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What is to be announced, oldest first."""

    links: tuple[Link, ...]
    broken: Break = Break.NONE


def ancestors(links: Mapping[int, Link], head: int | None) -> list[Link]:
    """From the head back to the oldest ancestor that is still known."""
    path: list[Link] = []
    seen: set[int] = set()
    current = head
    while current is not None and current in links and current not in seen:
        seen.add(current)
        path.append(links[current])
        current = links[current].parent_id
    return path


def pending(links: Mapping[int, Link], head: int | None, last: Watermark | None) -> Pending:
    """The snapshots between the last announced one and the head."""
    path = ancestors(links, head)
    if not path or (last is not None and last.snapshot_id == head):
        return Pending(())
    if last is None:
        return Pending(tuple(reversed(path)))
    ids = [link.snapshot_id for link in path]
    if last.snapshot_id in ids:
        return Pending(tuple(reversed(path[: ids.index(last.snapshot_id)])))
    if path[-1].parent_id == last.snapshot_id:
        # It expired since, but its child is there: nothing was missed.
        return Pending(tuple(reversed(path)))
    if last.snapshot_id in links:
        abandoned = {link.snapshot_id for link in ancestors(links, last.snapshot_id)}
        new = [link for link in path if link.snapshot_id not in abandoned]
        # A rollback to an ancestor brings no new snapshot; the head is told once more, so that all learn of it.
        return Pending(tuple(reversed(new)) or (path[0],), Break.ROLLBACK)
    if last.sequence_number == 0:
        # Tables of version 1 have no numbers, nor have their snapshots after an upgrade: what came later cannot be told
        # from what was there. Nor does its oldest snapshot tell: PyIceberg's expiry takes the parent away.
        return Pending(tuple(reversed(path)), Break.GAP)
    later = [link for link in path if link.sequence_number > last.sequence_number]
    if not later:
        return Pending((path[0],), Break.ROLLBACK)
    return Pending(tuple(reversed(later)), Break.GAP)
