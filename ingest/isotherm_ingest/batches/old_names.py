"""Tells where streams give tables other names than before."""

from collections.abc import Mapping

from isotherm.runtime import logs
from isotherm_ingest.known_in_marks import named
from isotherm_ingest.mark_text import Mark, names_of
from isotherm_ingest.name_template import may_be
from isotherm_ingest.plan.topic_partition import Position

OLD_NAMES = (
    "tables of new names that are quiet are built with their next message, and what came meanwhile is no other table's if the "
    "names are changed back; to build all from what Kafka holds, give the pipeline another name"
)


def tell_old_names(topic: str, template: str, marked: Mapping[Position, Mark]) -> None:
    """Tell where tables got other names before, and the new ones match the old: those count as the topic's still."""
    marks = {one: mark for one, mark in marked.items() if one[0] == topic}
    old = sorted(name for name in named(marks) if may_be(template, name))
    if old and any(mark.names not in {"", names_of(template)} for mark in marks.values()):
        logs.get().warning(
            "table_names_changed",
            topic=topic,
            table=template,
            before=old[:5],
            of=len(old),
            hint=OLD_NAMES,
        )
