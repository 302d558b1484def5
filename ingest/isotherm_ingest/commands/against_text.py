"""What streams would make of what is there, for people: topic by topic, then what nobody takes, and a summary."""

from collections.abc import Iterator, Sequence

from isotherm.runtime.text import counted
from isotherm_ingest.commands.against import Fit
from isotherm_ingest.commands.table_fit import TableFit
from isotherm_ingest.commands.terminal import out, told
from isotherm_ingest.commands.topic_schemas import TopicLook
from isotherm_ingest.plan.topics import COMPACTED
from isotherm_ingest.streams import StreamsConfig

MOST_NAMES = 20
"""Topics that no stream takes, in a cluster of thousands."""


def print_fit(config: StreamsConfig, found: Fit) -> None:
    """Everything, whole lines, so that one can look for a word in them."""
    tables = {one.name: one for one in found.tables}
    for look in found.topics:
        stream = config.stream_of(look.topic)
        by = "" if stream is None else f" (stream {stream.topics})"
        out.print(told(f"{look.topic}{by}", "bold"), soft_wrap=True)
        for text, style in _of_topic(look, tables, is_compacted=look.topic in found.compacted):
            out.print(told(f"  {text}", style), soft_wrap=True)
    for text in _left(found.untaken, "no stream takes topic", "topics"):
        out.print(told(text), soft_wrap=True)
    for idle in found.idle:
        out.print(told(f"stream {idle.topics} takes no topic that is there"), soft_wrap=True)
    out.print(summary(found))


def summary(found: Fit) -> str:
    """One plain line."""
    said = (
        "all of it fits" if not found.troubles else f"{found.troubles} with something that would be refused"
    )
    return f"{counted(len(found.topics), 'topic')}, {counted(len(found.tables), 'table')}: {said}; nothing was written"


def _of_topic(
    look: TopicLook, tables: dict[str, TableFit], *, is_compacted: bool
) -> Iterator[tuple[str, str]]:
    """What there is to say of a topic, each with its style."""
    if look.trouble:
        rest = " of all of it" if look.groups else ""
        yield f"nobody can say{rest}: {look.trouble}", "red"
    if look.looked_at:
        yield f"{counted(len(look.groups), 'schema')} with a table, in {look.looked_at}", "dim"
    elif not (look.notes or look.trouble):
        yield "holds no message", "dim"
    for name in sorted({name for _, name, _ in look.groups}):
        yield from _of_table(look.topic, tables[name])
    for why in look.refused:
        yield f"dead letters: {why}", "red"
    for note in look.notes:
        yield note, "yellow"
    if is_compacted:
        yield f"is compacted: {COMPACTED}", "yellow"


def _of_table(topic: str, table: TableFit) -> Iterator[tuple[str, str]]:
    key = f", key {', '.join(table.key)}" if table.key else ""
    if table.refused:
        yield f"-> {table.name} ({table.mode}): refused: {table.refused}", "red"
        return
    yield f"-> {table.name} ({table.mode}{key}){'' if table.is_there else ', which would be made'}", ""
    if table.columns is not None:
        yield f"   with {', '.join(f'{name} {kind}' for name, kind in table.columns.items())}", ""
    mine = [one for one in table.groups if one.topic == topic]
    changes = list(dict.fromkeys(change for one in mine for change in one.changes))
    refused = list(dict.fromkeys(one.refused for one in mine if one.refused))
    for change in changes:
        yield f"   {change}", "yellow"
    for why in refused:
        yield f"   dead letters: {why}", "red"
    if table.is_there and not changes and not refused:
        yield "   fits as it is", "green"


def _left(names: Sequence[str], one: str, many: str) -> Iterator[str]:
    for name in names[:MOST_NAMES]:
        yield f"{one} {name}"
    if len(names) > MOST_NAMES:
        yield f"nor {len(names) - MOST_NAMES:,} more {many}"
