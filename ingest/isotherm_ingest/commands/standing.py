"""How one table of a pipeline stands, from what it says, what the marks say of it, and what Kafka holds.

It is judged by the driver's own rule (`plan.resume_or_halt`), so a status says *halted* where the next driver would halt.
No I/O: whoever asks has read everything before. The marks were read before the table, and Kafka's ends after it. So a
driver that runs meanwhile makes nothing look lost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyiceberg.table.snapshots import Snapshot

from isotherm_ingest.announce.pending import Watermark, pending
from isotherm_ingest.batches.owners import owner_of
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.known_in_marks import known_of
from isotherm_ingest.mark_text import Mark
from isotherm_ingest.name_template import may_be
from isotherm_ingest.plan.holes import Hole
from isotherm_ingest.plan.known import Known
from isotherm_ingest.plan.resume_or_halt import Found, place
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.definition import MODE_PROPERTY, missing_properties
from isotherm_ingest.tables.lake import TableNow, summary_of
from isotherm_ingest.tables.offset_vector import Token, TokenError, tokens_in
from isotherm_ingest.tables.refusals import must_be_written
from isotherm_ingest.tables.source_names import names_in
from isotherm_ingest.tables.whose import refuse_anothers

NEARS_RETENTION = 0.7
"""Of what Kafka holds, unread: as the alert IsothermIngestNearsRetention has it."""
LATE_S = 900.0
"""A message that waits for longer, of a table that has committed nothing for as long: the alerts' quarter of an hour."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read of everything that tables share."""

    config: StreamsConfig
    kafka: Kafka
    """Of all topics that the streams take."""
    first_young: Mapping[Position, int]
    """The first offset of each partition that is not old enough to be late; -1 where all are."""
    marks: Mapping[Position, Mark]
    announced: Mapping[str, tuple[str, Watermark]]
    """By uuid, the name and the snapshot that were announced last."""
    now_ms: int
    late_ms: int

    @property
    def topics(self) -> set[str]:
        """The topics that are listed."""
        return {topic for topic, _ in self.kafka.ends}

    def announced_as(self, name: str) -> str | None:
        """The uuid of the table that was announced last under a name."""
        return next((uuid for uuid, (one, _) in reversed(list(self.announced.items())) if one == name), None)

    def is_late(self, position: Position, needs: int) -> bool:
        """Whether the message at an offset has waited for long."""
        first = self.first_young.get(position, needs)
        return needs < self.kafka.ends.get(position, 0) and (first < 0 or needs < first)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one table stands."""

    table: str
    mode: str
    state: str = "fine"
    """`fine`, `waits` (for a message that has just come, or a batch), `behind` (its topics were read on without it),
    `halted`, `refused`, `unreadable`, or `unclaimed` where no stream writes it any more."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """By topic, the messages from where the table goes on to the end."""
    passed: int = 0
    """Of these messages, those that its topics were read past without it: it failed, is left alone, or is being brought up."""
    retention_used: float = 0.0
    """Of what Kafka holds in the fullest partition, the share that the table still needs; at 1 it begins to be lost."""
    committed_ms: int | None = None
    """When ingest committed to it last."""
    holes: tuple[str, ...] = ()
    unannounced: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """By reason, of its topics."""
    troubles: tuple[str, ...] = ()
    """What a person must look at."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table, and what was found of it."""

    name: str
    now: TableNow | None
    token: Token | None
    known: Known | None
    """What the marks say of it."""
    owner: Stream
    had: frozenset[str]
    """The topics of which it has something, or was seen through."""
    mine: frozenset[str]
    """Those of them that are listed, and whose stream gives its name still."""


def standing(name: str, now: TableNow | Exception | None, seen: Seen) -> Standing | None:
    """How a table stands; None where there is none, and no stream would make it.

    Args:
        name: the table's.
        now: the table, or why it cannot be read; None where there is none.
        seen: what else was read.
    """
    token, refused, state = None, "", "refused"
    if isinstance(now, Exception):
        now, refused, state = None, f"cannot be read: {now}", "unreadable"
    elif now is not None:
        try:
            token = now.token(seen.config.pipeline)
            must_be_written(now)
        except (TokenError, TableRefused) as err:
            refused = str(err)
    known = known_of(seen.marks, name, seen.announced_as)
    had = _topics_had(known, token)
    properties = {} if now is None else now.properties
    owner = owner_of(seen.config, name, properties, had)
    if owner is None:
        if refused:
            return Standing(name, "", state, troubles=(refused,))
        return None if now is None else Standing(name, properties.get(MODE_PROPERTY, ""), "unclaimed")
    mine = frozenset(topic for topic in had & seen.topics if _gives(seen.config, topic, name))
    known = None if known is None else known.of(had)
    table = _Table(name, now, token, known, owner, had, mine)
    needs = {} if known is None else dict(known.through)
    holes: tuple[Hole, ...] = ()
    halted: tuple[Hole, ...] = ()
    if not refused:
        found = Found() if now is None else now.found(token)
        at = place(found, known, seen.kafka, mine, owner.on_hole)
        holes, halted = at.told, at.halted
        needs = {one: at.next[one] for one in at.next if one in needs or one in at.vector}
        refused = _why_refused(table, seen.config.pipeline)
    told = Standing(name, owner.mode, holes=tuple(map(str, (*halted, *holes))))
    told = _measured(told, table, needs, seen)
    told = _with_troubles(told, table, needs, seen)
    lacks = "; ".join(map(str, halted))
    if lacks or (known is not None and known.is_halted):
        why = lacks or "it was halted, and nobody has decided"
        told = replace(
            told, state="halted", troubles=(f"lacks changes: {why} (see `on_hole`)", *told.troubles)
        )
    return replace(told, state=state, troubles=(refused, *told.troubles)) if refused else told


def _topics_had(known: Known | None, token: Token | None) -> frozenset[str]:
    of_marks = () if known is None else (*known.through, *known.by_others, *known.unsaid)
    of_token = () if token is None else token.source.vector
    return frozenset({topic for topic, _ in of_marks} | set(of_token))


def _gives(config: StreamsConfig, topic: str, name: str) -> bool:
    """Whether the stream of a topic gives the table's name still."""
    return any(may_be(one.table, name) for one in config.streams_of(topic))


def _why_refused(table: _Table, pipeline: str) -> str:
    """Why a driver would refuse the table, whatever messages come."""
    now, known, owner = table.now, table.known, table.owner
    if now is None:
        return ""
    try:
        of_table = None if known is None else known.as_found(now.uuid)
        refuse_anothers(now, table.token, of_table, pipeline, owner.on_hole)
        names = names_in(owner, now)
        key = tuple(map(names.of, owner.key))
        missing_properties(table.name, owner, key, now.properties, names=names)
    except TableRefused as err:
        return str(err)
    return ""


def _measured(told: Standing, table: _Table, needs: Mapping[Position, int], seen: Seen) -> Standing:
    """With what waits for the table, how much of what Kafka holds that is, and what is new in it."""
    waiting = dict.fromkeys(sorted(table.mine), 0)
    used, passed = 0.0, 0
    for one in seen.kafka.positions(table.mine):
        start, end = seen.kafka.starts.get(one, 0), seen.kafka.ends[one]
        left = max(end - needed(one, needs, seen), 0)
        waiting[one[0]] += left
        if 0 < start < end:  # what begins at 0 has lost nothing yet: how soon it will, nobody can say
            used = max(used, min(left / (end - start), 1.0))
        if (mark := seen.marks.get(one)) is not None:
            passed += max(min(mark.through, end) - needed(one, needs, seen), 0)
    return replace(
        told,
        state="behind" if passed else "waits" if any(waiting.values()) else "fine",
        waiting=waiting,
        passed=passed,
        retention_used=used,
        committed_ms=None if table.now is None else committed_ms(table.now, seen.config.pipeline),
        unannounced=unannounced(table.now, seen.announced)[0],
    )


def needed(position: Position, needs: Mapping[Position, int], seen: Seen) -> int:
    """The next offset that a table needs. Of what it has never read, nothing below the mark was for it."""
    mark = seen.marks.get(position)
    front = seen.kafka.starts.get(position, 0) if mark is None else mark.through
    return needs.get(position, front)


def _with_troubles(told: Standing, table: _Table, needs: Mapping[Position, int], seen: Seen) -> Standing:
    """With what a person must look at, of what was measured."""
    troubles: list[str] = []
    positions = seen.kafka.positions(table.mine)
    is_silent = told.committed_ms is None or told.committed_ms < seen.now_ms - seen.late_ms
    if is_silent and any(seen.is_late(one, needed(one, needs, seen)) for one in positions):
        why = (
            f"its topics were read on without it, by {told.passed:,}"
            if told.passed
            else "is a driver running?"
        )
        troubles.append(f"messages have waited for more than {span(seen.late_ms)}: {why}")
    if told.retention_used > NEARS_RETENTION:
        troubles.append(f"of what Kafka holds of a partition, {told.retention_used:.0%} are still unread")
    gone = {one for one in table.had if _gives(seen.config, one, told.table)}
    if gone and not table.mine:
        troubles.append(f"none of its topics is listed: {', '.join(sorted(gone)[:3])}")
    count, oldest_ms = unannounced(table.now, seen.announced)
    if count and oldest_ms < seen.now_ms - seen.late_ms:
        troubles.append(f"{count:,} snapshots are not announced")
    return replace(told, troubles=tuple(troubles))


def committed_ms(now: TableNow, pipeline: str) -> int | None:
    """When the pipeline committed to a table last, as far as its history tells."""
    return next((one.timestamp_ms for one in now.ancestry() if _has_token(one, pipeline)), None)


def _has_token(snapshot: Snapshot, pipeline: str) -> bool:
    return any(True for _ in tokens_in(pipeline, [summary_of(snapshot)]))


def unannounced(now: TableNow | None, announced: Mapping[str, tuple[str, Watermark]]) -> tuple[int, int]:
    """How many snapshots of a table are still to be announced, and when the oldest of them was committed."""
    if now is None:
        return 0, 0
    last = announced.get(now.uuid)
    due = pending(now.links(), now.head, None if last is None else last[1]).links
    return len(due), min((now.snapshots[one.snapshot_id].timestamp_ms for one in due), default=0)


def is_whole(pipeline: str, announced: Mapping[str, tuple[str, Watermark]]) -> Callable[[TableNow], bool]:
    """Whether the newest snapshots of a table say all that is asked of it."""

    def says_enough(now: TableNow) -> bool:
        last = announced.get(now.uuid)
        is_there = last is not None and any(one.snapshot_id == last[1].snapshot_id for one in now.ancestry())
        return is_there and now.has_tokens(pipeline)

    return says_enough


def span(milliseconds: float) -> str:
    """A time span as people say it: `12 s`, `3 min`, `5 h`, `2 d`."""
    seconds = max(milliseconds, 0) / 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (unit == "min" and seconds >= size):
            return f"{int(seconds / size)} {unit}"
    return f"{int(seconds)} s"
