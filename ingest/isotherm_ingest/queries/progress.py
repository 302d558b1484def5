"""How far a query has come: of its sources, what it has computed from. Only values here.

A query's vector is that of its sources: of each Kafka partition the least that any table has which the SQL reads. It is
read before the SQL is run, so the rows are of that or of later. What comes later is computed once more, and is the same.
Where a source is not what it was, nobody knows which rows are to be computed: all are.
"""
# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.query_config import Query
from isotherm_ingest.sql.text import literal, quoted
from isotherm_ingest.tables.offset_vector import Source, positions_of, vector_of

QUERY = "ingest.query"
"""Of a summary: which query has computed the rows."""
SOURCES = "ingest.query-sources"
"""Of a summary: by table that the query reads, its uuid, and its head before it was read."""
FINAL = "ingest.query-final"
"""Of a summary: up to which time of its rows those that are final were sent on, in milliseconds."""


@dataclass(frozen=True, slots=True)
class SourceNow:
    """A table that a query reads, before it is read."""

    name: str
    uuid: str
    head: int | None
    source: Source | None
    """How far it is in Kafka; None where it is nobody's that reads Kafka."""
    valid_through_ms: int | None = None
    """The event time that its writer has reached."""
    topics: frozenset[str] = frozenset()
    """Of which it has rows, or is to have some."""
    lost: frozenset[int] = frozenset()
    """Snapshots that are still known, and that its head does not follow."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the rows of a query's table were computed from."""

    source: Source = field(default_factory=Source)
    query: str = ""
    sources: Mapping[str, tuple[str, int | None]] = field(default_factory=dict)
    """By name: uuid, and head."""
    final_ms: int | None = None
    """Rows that were over by then have been sent on."""

    def summary(self) -> dict[str, str]:
        """What a snapshot says of it, beside its token."""
        told = {name: list(one) for name, one in sorted(self.sources.items())}
        final = {} if self.final_ms is None else {FINAL: str(self.final_ms)}
        return {QUERY: self.query, SOURCES: json.dumps(told, separators=(",", ":")), **final}


def said(source: Source, summary: Mapping[str, str]) -> Progress:
    """What a snapshot says, with its token taken apart."""
    try:
        told = json.loads(summary[SOURCES])
        sources = {
            str(name): (str(uuid), None if head is None else int(head)) for name, (uuid, head) in told.items()
        }
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        sources = {}  # somebody else's idea of it: all is computed anew
    final = summary.get(FINAL, "")
    return Progress(source, summary.get(QUERY, ""), sources, int(final) if final.isdecimal() else None)


def fingerprint(query: Query) -> str:
    """What tells one query from another that gives other rows."""
    return hashlib.sha256(json.dumps(query.text, sort_keys=True).encode()).hexdigest()[:16]


def progress(query: Query, sources: Iterable[SourceNow]) -> Progress:
    """How far a query comes that is run now."""
    found = list(sources)
    followed = [one.source for one in found if one.source is not None]
    topics = {
        topic for one in found if one.name in query.changes and one.source for topic in one.source.vector
    }
    places = {place for one in followed for place in positions_of(one.vector) if place[0] in topics}
    least: dict[Position, int] = {}
    for place in places:
        # A table that has nothing of a partition yet has all of it before it.
        mine = [one.source for one in found if one.source is not None and place[0] in one.topics]
        least[place] = min(positions_of(one.vector).get(place, 0) for one in mine)
    ids = {topic: one for source in followed for topic, one in source.topic_ids.items() if topic in topics}
    cuts = {place: max(one.cuts.get(place, 0) for one in followed) for place in least}
    return Progress(
        Source(vector_of(least), "", ids, {place: cut for place, cut in cuts.items() if cut}),
        fingerprint(query),
        {one.name: (one.uuid, one.head) for one in found},
    )


def is_circle(reads: Mapping[str, Collection[str]], start: str) -> bool:
    """Whether a table is computed from itself.

    Args:
        reads: by table of a query, those that it reads.
        start: the table.
    """
    met, waiting = set[str](), list(reads.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in met:
            met.add(name)
            waiting += reads.get(name, ())
    return start in met


def topic_of_two(sources: Iterable[SourceNow]) -> str:
    """A topic that was made again, of which not all tables are of the new one yet; or nothing."""
    ids: dict[str, str] = {}
    for one in sources:
        for topic, number in (one.source.topic_ids if one.source is not None else {}).items():
            if ids.setdefault(topic, number) != number:
                return topic
    return ""


def reached_ms(query: Query, sources: Iterable[SourceNow]) -> int | None:
    """The event time that all changes of a query have reached; None where one of them does not tell."""
    told = [one.valid_through_ms for one in sources if one.name in query.changes]
    return min((one for one in told if one is not None), default=None) if None not in told else None


def why_anew(was: Progress | None, now: Progress, sources: Iterable[SourceNow]) -> str:
    """Why all rows are computed again, or nothing where only those are that changes touch."""
    if was is None:
        return "nothing is known of its rows"
    if was.query != now.query:
        return "the query is another one"
    for one in sources:
        uuid, head = was.sources.get(one.name, ("", None))
        if uuid != one.uuid:
            return f"{one.name} was made again"
        if head in one.lost:
            return f"{one.name} was rolled back"
    old, new = positions_of(was.source.vector), positions_of(now.source.vector)
    for position, offset in old.items():
        topic, partition = position
        if new.get(position, 0) < offset:
            return f"{topic}/{partition} goes on below where it was"
        if was.source.topic_ids.get(topic, "") != now.source.topic_ids.get(topic, ""):
            return f"topic {topic} was made again"
        if was.source.cuts.get(position, 0) != now.source.cuts.get(position, 0):
            return f"{topic}/{partition} was cut back"
    return ""


def new_rows(was: Progress, of: Source) -> str | None:
    """A condition on a changelog's rows: those that a query has not seen. None where there are none.

    Args:
        was: how far the query has come.
        of: how far the changelog is.
    """
    seen, parts = positions_of(was.source.vector), []
    for topic, offsets in sorted(of.vector.items()):
        places = [
            f"(`_topic_partition` = {partition} AND `_offset` >= {seen.get((topic, partition), 0)})"
            for partition, end in sorted(offsets.items())
            if end > seen.get((topic, partition), 0)
        ]
        if places:
            parts.append(f"(`_topic` = {literal(topic)} AND ({' OR '.join(places)}))")
    return " OR ".join(parts) or None


def rows_sql(
    sql: str, key: Iterable[str], columns: Mapping[str, str], given: Iterable[str], touched: str, reach: str
) -> str:
    """The rows of a query that are to be written, in the columns and types of its table.

    Args:
        sql: the query.
        key: its key.
        columns: of the table, with their types.
        given: columns of the query; the others are null.
        touched: a view of the keys.
        reach: a condition that all of them fulfil, or nothing.
    """
    same = " AND ".join(f"q.{quoted(one)} = t.{quoted(one)}" for one in key)
    there = {name.lower() for name in given}
    told = ", ".join(
        f"CAST({f'q.{quoted(name)}' if name.lower() in there else 'NULL'} AS {kind}) AS {quoted(name)}"
        for name, kind in columns.items()
    )
    where = f" WHERE {reach}" if reach else ""
    return f"SELECT {told} FROM (SELECT * FROM (\n{sql}\n){where}) q LEFT SEMI JOIN {touched} t ON {same}"
