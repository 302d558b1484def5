"""What the marks of a pipeline say of its tables, and what a mark is to say of them. Only values here."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from isotherm_ingest.mark_text import Mark
from isotherm_ingest.plan.known import Known, OfAnother, is_table
from isotherm_ingest.plan.topic_partition import Position


def of_topics(marks: Mapping[Position, Mark], ids: Mapping[str, str]) -> dict[Position, Mark]:
    """The marks without those of topics that are gone, where there are some of the topic that has the name now.

    A partition that has no leader is marked no more, and keeps its old mark beside the new ones of the others. Where there are
    old ones alone, they say that the topic was made again.
    """
    renewed = {
        topic for (topic, _), mark in marks.items() if mark.topic_id and mark.topic_id == ids.get(topic)
    }
    return {
        position: mark
        for position, mark in marks.items()
        if position[0] not in renewed or mark.is_of(ids[position[0]])
    }


def of_others(marks: Mapping[Position, Mark], topic: str, tables: Collection[str]) -> set[Position]:
    """The partitions of a topic whose marks speak of other tables alone than these."""
    return {
        one
        for one, mark in marks.items()
        if one[0] == topic and mark.tables and mark.is_whole and not mark.tables.keys() & set(tables)
    }


def known_of(
    marks: Mapping[Position, Mark], table: str, announced: Callable[[str], str | None] = lambda _: None
) -> Known | None:
    """What the marks say of a table, or None if they do not name it.

    Where not every table has found room in them, `announced` says at least which one had the name.
    """
    said = {
        one: marks[one].tables[table]
        for one in sorted(position for position, mark in marks.items() if table in mark.tables)
    }
    ids = {position[0]: marks[position].topic_id for position in said}
    unsaid = frozenset(one for one, mark in marks.items() if not mark.is_whole and one not in said)
    if not said:
        was = announced(table) if unsaid else None
        return None if was is None else Known(was, {}, {}, unsaid=unsaid)
    table_uuid = next((one for one, _, _ in reversed(said.values()) if one), "")
    mine = {
        position: one
        for position, one in said.items()
        if not one[0] or is_table(one[0], table_uuid) or is_table(table_uuid, one[0])
    }
    # Of another table of the name: what that had there this one lacks, or says itself.
    others = {
        position: 0 for position, (_, had, _) in said.items() if position not in mine and had is not None
    }
    return Known(
        table_uuid,
        {position: had for position, (_, had, _) in mine.items() if had is not None},
        {**others, **{position: reached for position, (_, _, reached) in mine.items()}},
        ids,
        is_halted=any(table in marks[position].halted for position in mine),
        noted=frozenset(
            one
            for one, (by, _, reached) in mine.items()
            if not by and (table_uuid or reached < marks[one].through)
        ),
        cuts={one: seen_ms for one in mine if (seen_ms := marks[one].since.get(table))},
        unsaid=unsaid,
        replaced={position: said[position][2] for position in others},
        by_others={
            position: OfAnother(*one, marks[position].since.get(table, 0), table in marks[position].halted)
            for position, one in said.items()
            if position not in mine
        },
    )


def with_known(mark: Mark, old: Mark | None, position: Position, known: Mapping[str, Known]) -> Mark:
    """The mark of a partition with what is known of the topic's tables; of those that are gone, what the old one says."""
    if old is None or old.topic_id != mark.topic_id:
        old = Mark(mark.through)
    tables, halted, since = dict(old.tables), set(old.halted), dict(old.since)
    for name, said in known.items():
        if (
            position in said.through
            and position not in said.replaced
            and said.topic_ids.get(position[0], "") == mark.topic_id
        ):
            by = "" if position in said.noted else said.uuid
            tables[name] = (by, said.vector.get(position), said.through[position])
            is_halted = said.is_halted or position in said.doubted
            halted = halted | {name} if is_halted else halted - {name}
            since[name] = said.cuts.get(position, 0)
    since = {name: seen_ms for name, seen_ms in since.items() if seen_ms}
    return replace(mark, tables=tables, halted=frozenset(halted), since=since, is_whole=old.is_whole)


def named(marks: Mapping[Position, Mark]) -> set[str]:
    """Every table that the marks name."""
    return {name for mark in marks.values() for name in mark.tables}
