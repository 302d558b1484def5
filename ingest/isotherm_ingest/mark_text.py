"""What stands beside the committed offset of a Kafka partition, as text: what was known of the tables of its topic.

A broker takes 4,096 bytes. Up to there it is plain JSON, which holds some 45 tables. Of more tables the columns are
packed: names, the beginnings of the uuids, and offsets relative to the mark. That holds some 200.
"""

import base64
import hashlib
import json
import zlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from isotherm.runtime import logs
from isotherm_ingest.plan.cut_backs import Cut
from isotherm_ingest.plan.known import CUT

MOST_TEXT = 4_000
"""Bytes beside one offset; brokers take 4,096 (`offset.metadata.max.bytes`)."""
PACKED = "z"
"""With this letter begins what is packed; JSON begins with a brace."""
MOST_PACKED = 1_000
"""More tables find no room, however short their names are: of each uuid there are four bytes."""
UUID_LETTERS = 8
"""Of a uuid that is packed. A table that is made again has the same ones once in four billion times; then it is not told."""

Said = tuple[str, int | None, int]
"""Of a table: its uuid, what it had by its own word, and below what nothing is left for it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far one Kafka partition was seen through."""

    through: int
    topic_id: str = ""
    tables: Mapping[str, Said] = field(default_factory=dict)
    """Of each table of the topic. The uuid is empty where the table has said nothing of the partition (`Known.noted`)."""
    by: str = field(default="", compare=False)
    """The driver that has written it; empty where somebody else has set the offset."""
    halted: frozenset[str] = frozenset()
    """Those of the tables that lack changes, about which a person must decide."""
    cuts: tuple[Cut, ...] = ()
    """Where Kafka lost its newest messages (`plan.cuts`)."""
    since: Mapping[str, int] = field(default_factory=dict)
    """By table, when the newest cut was seen that what is known of it knows of; of those that know of none, nothing."""
    names: str = ""
    """Which names the stream gave its tables then (`names_of`); empty in marks of an older ingest."""
    is_whole: bool = True
    """Whether every table found room; of one that is not among them, something may have been known."""

    def is_of(self, topic_id: str) -> bool:
        """Whether it is of the topic that has this id, as far as both are known."""
        return not topic_id or self.topic_id in {"", topic_id}


def names_of(template: str) -> str:
    """Eight letters for a stream's `table`, by which a driver that begins sees that it has changed."""
    return hashlib.blake2b(template.encode(), digest_size=4).hexdigest()


def encoded(mark: Mark) -> str:
    """What stands beside the offset. Where there are too many tables, those whose own vector says as much go first.

    One that is left out goes on from its own vector, and loses no row of what that speaks of. In a partition that its vector
    does not name yet it goes on with its next message. Of the others, a quiet table may be taken for one that lost changes once
    retention has passed its vector.
    """
    behind_first = sorted(
        mark.tables.items(),
        # What is noted stands nowhere else.
        key=lambda item: (
            bool(item[1][0]),
            item[1][1] == mark.through,
            item[1][2] >= mark.through,
            item[0],
        ),
    )
    text = _plain(mark, dict(behind_first))
    if len(text.encode()) <= MOST_TEXT:
        return text
    most = range(min(len(behind_first), MOST_PACKED) + 1)
    too_many = bisect_left(
        most, True, key=lambda count: len(_packed(mark, dict(behind_first[:count]))) > MOST_TEXT
    )
    return _packed(mark, dict(behind_first[: too_many - 1]))


def unmarked(mark: Mark, text: str) -> list[str]:
    """The tables that found no room in the text, and whose own vector says less than the mark."""
    if not text.startswith(PACKED):
        return []
    kept = decoded(mark.through, text).tables
    return sorted(
        name for name, (_, had, _) in mark.tables.items() if name not in kept and had != mark.through
    )


def _plain(mark: Mark, tables: Mapping[str, Said]) -> str:
    said: dict[str, Any] = {"id": mark.topic_id, "by": mark.by, "tables": tables}
    if mark.names:
        said["as"] = mark.names
    if halted := sorted(mark.halted & tables.keys()):
        said["halted"] = halted
    if not mark.is_whole:
        said["left"] = 1
    if mark.cuts:
        said["cuts"] = [astuple(one) for one in mark.cuts]
        said["since"] = {name: seen_ms for name, seen_ms in mark.since.items() if name in tables}
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


def _packed(mark: Mark, tables: Mapping[str, Said]) -> str:
    names = sorted(tables)
    said: dict[str, Any] = {
        "id": mark.topic_id,
        "by": mark.by,
        "names": names,
        "uuids": ",".join(tables[name][0][:UUID_LETTERS] for name in names),
        "had": [None if (had := tables[name][1]) is None else mark.through - had for name in names],
        "reached": [mark.through - tables[name][2] for name in names],
        "halted": [place for place, name in enumerate(names) if name in mark.halted],
    }
    if mark.names:
        said["as"] = mark.names
    if not mark.is_whole or len(tables) < len(mark.tables):
        said["left"] = 1
    if mark.cuts:
        said["cuts"] = [astuple(one) for one in mark.cuts]
        said["since"] = [mark.since.get(name, 0) for name in names]
    text = json.dumps(said, separators=(",", ":"), ensure_ascii=False)
    return PACKED + base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def decoded(through: int, text: str) -> Mark:
    """The opposite of `encoded`. What cannot be read says nothing of tables."""
    try:
        if text.startswith(PACKED):
            return _unpacked(through, json.loads(zlib.decompress(base64.b85decode(text[1:]))))
        data = json.loads(text) if text else {}
        tables = {
            str(name): (str(table_uuid), None if had is None else int(had), int(reached))
            for name, (table_uuid, had, reached) in data.get("tables", {}).items()
        }
        halted = frozenset(str(name) for name in data.get("halted", ()))
        since = {str(name): int(seen_ms) for name, seen_ms in data.get("since", {}).items()}
        said = str(data.get("id", "")), tables, str(data.get("by", "")), halted
        return Mark(through, *said, _cuts(data), since, str(data.get("as", "")), not data.get("left"))
    except (
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        OverflowError,
        RecursionError,
        zlib.error,
    ) as err:
        logs.get().warning("mark_unreadable", error=str(err), text=text[:200])
        return Mark(through)


def _cuts(data: Mapping[str, Any]) -> tuple[Cut, ...]:
    return tuple(Cut(int(seen_ms), int(end), int(front)) for seen_ms, end, front in data.get("cuts", ()))


def _unpacked(through: int, data: Mapping[str, Any]) -> Mark:
    names = [str(name) for name in data["names"]]
    uuids = str(data["uuids"]).split(",") if names else []
    tables = {
        name: (
            beginning + CUT if len(beginning) == UUID_LETTERS else beginning,
            None if had is None else through - int(had),
            through - int(reached),
        )
        for name, beginning, had, reached in zip(names, uuids, data["had"], data["reached"], strict=True)
    }
    halted = frozenset(names[place] for place in data["halted"])
    since = {name: int(ms) for name, ms in zip(names, data.get("since", ()), strict=False) if ms}
    said = str(data["id"]), tables, str(data["by"]), halted
    return Mark(through, *said, _cuts(data), since, str(data.get("as", "")), not data.get("left"))
