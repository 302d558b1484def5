"""What a table is, as it stands on the table: its mode, and the key and the source of a mirror.

None of these is guessed again from the first message that a driver happens to see. A change, in streams.yaml or at the
source, is refused: rows of two keys would overwrite each other, and changes appended to a mirror would be rows.
"""

import json
from collections.abc import Collection, Mapping, Sequence

from isotherm_ingest.failures import TableRefused
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.tables.source_names import AS_THEY_ARE, SourceNames

MODE_PROPERTY = "ingest.mode"
KEY_PROPERTY = "ingest.key"
SOURCE_PROPERTY = "ingest.source-topic"
FIRST_PROPERTY = "ingest.first-topic"
"""Of a table that may have rows of several topics: the one whose stream writes it."""
ANEW = "To build it anew, drop it and say `on_hole: backfill` in its stream"


def definition(
    stream: Stream, key: Sequence[str], groups: Sequence[Group] = (), had: Collection[str] = ()
) -> dict[str, str]:
    """The properties that say what a table is, by its key, the messages that come, and the topics of which it has rows."""
    said: dict[str, str] = {MODE_PROPERTY: stream.mode}
    if stream.mode == "mirror" and key:
        said[KEY_PROPERTY] = json.dumps(list(key))
    topics = {*had, *(group.topic for group in groups)}
    if len(topics) == 1 and stream.has_one_source:
        said[SOURCE_PROPERTY] = topics.pop()
    elif groups:
        said[FIRST_PROPERTY] = groups[0].topic
    return said


def of_other_sources(
    name: str,
    stream: Stream,
    groups: Sequence[Group],
    properties: Mapping[str, str],
    had: Collection[str] = (),
) -> dict[Group, str]:
    """The messages of another topic than the mirror's, with why they do not belong into it.

    A source table has a topic of its own. Where a router brings several into one, that one is the source.

    Args:
        name: the mirror's.
        stream: its stream.
        groups: messages that would become its rows, in the order in which they first came.
        properties: of the table.
        had: topics of which it has rows. Where these are several, whoever made it so meant that.
    """
    if not groups or not stream.has_one_source or (SOURCE_PROPERTY not in properties and len(had) > 1):
        return {}
    mine = properties.get(SOURCE_PROPERTY) or next(iter(had), groups[0].topic)
    return {
        group: (
            f"other_table:{name} has the rows of topic {mine}, and these are of {group.topic}. Write {{schema}} or {{topic}} into "
            f"`table`, or say `sources: many` where no key is in both, or set {SOURCE_PROPERTY} where the source moved"
        )
        for group in groups
        if group.topic != mine
    }


def key_of(
    name: str,
    stream: Stream,
    groups: Collection[Group],
    properties: Mapping[str, str] | None = None,
    names: SourceNames = AS_THEY_ARE,
) -> tuple[str, ...]:
    """The key of a mirror: what its stream says, or the fields of its messages' keys; empty for a changelog.

    Where no message has a key, it is the one that the table's properties say: a single message must not stop a table.

    Raises:
        TableRefused: it has none, more than one, or one that is no column.
    """
    if stream.mode == "changelog" or not groups:
        return ()
    keys = {tuple(map(str.lower, group.key)): group.key for group in groups if group.key}
    of_messages = sorted(keys.values())
    if not stream.key and len(of_messages) > 1:
        raise TableRefused(
            f"{name} gets messages of two keys, {_named(of_messages[0])} and {_named(of_messages[1])}: rows could overwrite "
            f"each other. Say in its stream which columns tell rows apart (`key:`). {ANEW}"
        )
    key = (
        tuple(map(names.of, stream.key)) or next(iter(of_messages), ()) or _key_said(properties or {}, names)
    )
    if not key:
        raise TableRefused(f"{name} has no key: its messages have none, and its stream names none (`key:`)")
    for group in groups:
        columns = {one.name.lower() for one in group.columns}
        for column in key:
            if column.lower() not in columns:
                raise TableRefused(f"key column {column!r} is no column of {name}")
    return key


def missing_properties(
    name: str,
    stream: Stream,
    key: Sequence[str],
    properties: Mapping[str, str],
    groups: Sequence[Group] = (),
    had: Collection[str] = (),
    names: SourceNames = AS_THEY_ARE,
) -> dict[str, str]:
    """What the table does not say of itself yet, as one that an earlier version made.

    Raises:
        TableRefused: it is something else than its stream, or its messages, say.
    """
    said = definition(stream, key, groups, had)
    mode = properties.get(MODE_PROPERTY, stream.mode)
    if mode != stream.mode:
        raise TableRefused(
            f"{name} is a {mode}, and its stream says {stream.mode}. Give the stream another table. {ANEW}"
        )
    kept = _key_said(properties, names)
    if key and KEY_PROPERTY in properties and list(map(str.lower, kept)) != list(map(str.lower, key)):
        raise TableRefused(
            f"{name} is kept by {properties[KEY_PROPERTY]}, and its stream or its messages now say {said[KEY_PROPERTY]}. "
            f"Say `key: {properties[KEY_PROPERTY]}` in its stream to keep it as it is. {ANEW}"
        )
    if SOURCE_PROPERTY in properties:
        said.pop(FIRST_PROPERTY, None)
    return {one: value for one, value in said.items() if one not in properties}


def _key_said(properties: Mapping[str, str], names: SourceNames) -> tuple[str, ...]:
    try:
        return tuple(names.of(str(one)) for one in json.loads(properties.get(KEY_PROPERTY, "[]")))
    except (ValueError, TypeError, RecursionError):  # somebody else's idea of it
        return ()


def refuse_without(name: str, key: Sequence[str], columns: Collection[str]) -> None:
    """Refuse a table that has rows, and lacks a column of its key: a new one would be null in all of them.

    Raises:
        TableRefused: somebody renamed or dropped it.
    """
    there = {column.lower() for column in columns}
    for column in key:
        if column.lower() not in there:
            raise TableRefused(
                f"{name} has rows, and no column {column!r} any more, which tells them apart. Give it its name again. {ANEW}"
            )


def _named(key: Sequence[str]) -> str:
    return f"({', '.join(key)})"
