"""What writers announced before and after an upsert, as stories, and whether a commit of ours was in their way.

An upsert is whatever announces itself by an intent: ingest's own, or a MERGE of another writer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from isotherm.audit.evidence import Commit, Evidence, Said
from isotherm.contract.identity import PartitionKey

MARGIN_MS = 1000
"""A commit of ours looks at the control topic for the last time shortly before it swaps: within this margin of its
snapshot's timestamp nobody can tell from outside which came first, the message or the look."""


def ancestors(commits: Sequence[Commit], commit: Commit) -> Iterator[Commit]:
    """The ancestors of a commit, newest first."""
    by_id = {one.snapshot_id: one for one in commits}
    parent = commit.parent_id
    # Taken out as they are visited: damaged metadata may lead in a circle.
    while parent is not None and (found := by_id.pop(parent, None)) is not None:
        yield found
        parent = found.parent_id


@dataclass(frozen=True, slots=True)
class Story:
    """An intent from its first message to its last."""

    intent_id: str
    messages: tuple[Said, ...]

    @property
    def opened_at_ms(self) -> int:
        """When it was first said."""
        return self.messages[0].at_ms

    def holds(self, key: PartitionKey, at_ms: int, cap_ms: int) -> bool:
        """Whether it named the partition and was open at a time."""
        said = [message for message in self.messages if message.at_ms <= at_ms]
        if not said or said[-1].intent.state == "closed":
            return False
        newest = said[-1]
        if at_ms >= _over_at_ms(newest, cap_ms):
            return False
        return newest.intent.partitions is None or key in newest.intent.partitions

    def turns_ms(self, cap_ms: int) -> Iterator[int]:
        """When it may begin, or cease, to hold a partition."""
        for message in self.messages:
            yield message.at_ms
            yield _over_at_ms(message, cap_ms)

    def attempts(self) -> Iterator[tuple[int, int]]:
        """From when to when each attempt ran that had to be made again."""
        began_ms, attempt = self.messages[0].at_ms, self.messages[0].intent.attempt
        for message in self.messages[1:]:
            if message.intent.attempt > attempt:
                yield began_ms, message.at_ms
                began_ms, attempt = message.at_ms, message.intent.attempt

    def failed_at_ms(self) -> int | None:
        """When its writer gave up, or None where it did not."""
        last = self.messages[-1]
        return last.at_ms if last.intent.state == "closed" and last.intent.outcome == "failed" else None


def open_meanwhile(history: Evidence, key: PartitionKey, commit: Commit) -> str | None:
    """The sentence about an intent that named a partition while a commit of ours was made, or None where there was none.

    At no moment of the margin before was the partition free. Where it was, the last look may have come then.
    """
    cap_ms, stories = history.intent_cap_ms, told_stories(history)
    looked_at_ms, made_at_ms = commit.committed_at_ms - MARGIN_MS, commit.committed_at_ms
    held_by = next((story for story in stories if story.holds(key, looked_at_ms, cap_ms)), None)
    if held_by is None:
        return None
    moments = {at_ms for story in stories for at_ms in story.turns_ms(cap_ms)}
    for at_ms in (*(one for one in moments if looked_at_ms < one < made_at_ms), made_at_ms):
        if not any(story.holds(key, at_ms, cap_ms) for story in stories):
            return None
    return f"the intent {held_by.intent_id} named it and was open {MARGIN_MS} ms before"


def _over_at_ms(said: Said, cap_ms: int) -> int:
    """When an intent is over of which nothing more is heard."""
    return min(said.intent.expires_at_ms, said.at_ms + cap_ms)


def told_stories(history: Evidence) -> tuple[Story, ...]:
    """Every intent from its first word to its last, in the order of their ids."""
    messages: dict[str, list[Said]] = {}
    for said in history.intents:
        messages.setdefault(said.intent.intent_id, []).append(said)
    return tuple(
        Story(intent_id, tuple(sorted(told, key=lambda said: said.at_ms)))
        for intent_id, told in messages.items()
    )


def repeated_because_of_us(
    history: Evidence, ours: Sequence[Commit], stories: Sequence[Story]
) -> Iterator[tuple[Story, Commit]]:
    """Upserts that were computed again, each with the commit of ours in its way."""
    by_intent = {story.intent_id: story for story in stories}
    for recomputed in history.recomputed:
        story = by_intent.get(recomputed.intent_id)
        culprit = ours_between(history.commits, recomputed.base_id, recomputed.head_id)
        if story is not None and culprit is not None:
            yield story, culprit
    logged = {recomputed.intent_id for recomputed in history.recomputed}
    for story in stories:
        for began_ms, ended_ms in story.attempts() if story.intent_id not in logged else ():
            yield from ((story, c) for c in ours if began_ms <= c.committed_at_ms <= ended_ms)


def ours_between(commits: Sequence[Commit], base_id: int | None, head_id: int | None) -> Commit | None:
    """The newest commit of ours that came after the base, up to the head."""
    head = next((commit for commit in commits if commit.snapshot_id == head_id), None)
    if head is None:
        return None
    for commit in (head, *ancestors(commits, head)):
        if commit.snapshot_id == base_id:
            return None
        if commit.is_ours:
            return commit
        if base_id is None:
            # Nothing says where the upsert began, so only the head itself is known to be in its way.
            return None
    return None


def failures_because_of_us(
    history: Evidence, ours: Sequence[Commit], stories: Sequence[Story]
) -> Iterator[str]:
    """Batches and upserts that failed for good while a commit of ours landed."""
    for failed in history.failed_batches:
        culprits = [c for c in ours if failed.started_at_ms <= c.committed_at_ms <= failed.at_ms]
        if culprits:
            yield (
                f"a batch failed at {time_text(failed.at_ms)} ({failed.error}) "
                f"while snapshot {culprits[-1].snapshot_id} of ours was committed"
            )
    for story in stories:
        gave_up_ms = story.failed_at_ms()
        if gave_up_ms is None:
            continue
        culprits = [c for c in ours if story.opened_at_ms + MARGIN_MS <= c.committed_at_ms <= gave_up_ms]
        if culprits:
            yield (
                f"the upsert of intent {story.intent_id} failed at {time_text(gave_up_ms)} "
                f"while snapshot {culprits[-1].snapshot_id} of ours was committed"
            )


def recomputed_because(story: Story, commit: Commit) -> str:
    """The sentence about an upsert that was computed again because of a commit of ours."""
    ahead_ms = commit.committed_at_ms - story.opened_at_ms
    return (
        f"the upsert of intent {story.intent_id} was computed again because of snapshot {commit.snapshot_id} "
        f"of ours, committed {ahead_ms} ms after the intent was on the topic"
    )


def time_text(at_ms: int) -> str:
    """A point in time for people; times that no calendar holds stay numbers."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
