"""Whose a table is: the stream whose settings it is written by.

`{table}` and `{schema}` of a stream let a message choose among that stream's tables. It must not choose one of another
stream: whoever may write one topic could delete rows of all mirrors then, or stop them. The table itself says of which
topic it is; no order of topics, and no message that comes first, decides it again.
"""

from collections.abc import Collection, Iterable, Mapping

from isotherm.runtime import logs
from isotherm_ingest.batches.table_limits import TableLimits
from isotherm_ingest.failures import CatalogAway, TableRefused, brief
from isotherm_ingest.name_template import may_be
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.definition import FIRST_PROPERTY, MODE_PROPERTY, SOURCE_PROPERTY
from isotherm_ingest.tables.lake import Lake


class Owners:
    """The stream of each table that was heard of. It is found out once, and stays."""

    def __init__(self, config: StreamsConfig, lake: Lake, pipeline: str) -> None:
        self._config = config
        self._lake = lake
        self._pipeline = pipeline
        self._owners: dict[str, Stream] = {}
        self._limits = TableLimits(lake)
        self._guessed: set[str] = set()
        """Tables that could not be read: they are asked before they are written."""

    def known(self, name: str) -> Stream | None:
        """Whose a table is, where somebody has asked."""
        return self._owners.get(name)

    def giving(self, name: str, topics: Collection[str]) -> list[str]:
        """Those of some topics whose streams give a table's name still."""
        streams = {topic: self._config.streams_of(topic) for topic in topics}
        return [topic for topic, some in streams.items() if any(may_be(one.table, name) for one in some)]

    def of(self, name: str, stream: Stream) -> Stream:
        """Whose a table is: what it says itself, where it is there, or else that of the first who asks.

        Raises:
            CatalogAway: the catalog answers nobody. Each of a thousand new names would wait for it.
            NoMoreTablesError: it is not there, and the stream has as many as it may have.
        """
        if name not in self._owners:
            if stream.is_routed:
                mine = {table for table, owner in self._owners.items() if owner == stream}
                self._limits.check(name, stream, mine)
            self.begin(name, set())
            if name in self._guessed:
                self._probe()
        return self._owners.setdefault(name, stream)

    def begin(self, name: str, topics: set[str]) -> set[str]:
        """Find out whose a table is that has read these topics; gives all that it has read."""
        try:
            owner, topics = self._asked(name, topics)
            self._guessed.discard(name)
        except Exception as err:  # noqa: BLE001 (its own trouble: its writer meets it again, tells it and waits)
            logs.get().warning("table_unreadable", table=name, error=brief(err))
            owner = owner_of(self._config, name, {}, topics)
            self._guessed.add(name)
        if owner is not None:
            self._owners[name] = owner
        return topics

    def check(self, name: str, topics: set[str]) -> None:
        """Ask a table whose owner is a guess.

        Raises:
            TableRefused: it is another's.
            Exception: the catalog's; it cannot be read still.
        """
        if name not in self._guessed:
            return
        owner, _ = self._asked(name, topics)
        if owner is not None and owner != self._owners[name]:
            raise TableRefused(
                f"{name} is a table of the stream with the topics {owner.topics}, and could not be read when it was asked. Start "
                "ingest again"
            )
        self._guessed.discard(name)

    def _probe(self) -> None:
        try:
            self._lake.ask()
        except Exception as err:
            raise CatalogAway(brief(err)) from err

    def _asked(self, name: str, topics: set[str]) -> tuple[Stream | None, set[str]]:
        """Whose a table is, as the catalog has it, with all topics that it has read."""
        now = self._lake.newest(name, lambda now: now.has_tokens(self._pipeline))
        token = None if now is None else now.token(self._pipeline)
        topics = topics | (set() if token is None else token.source.vector.keys())
        return owner_of(self._config, name, {} if now is None else now.properties, topics), topics


def owner_of(
    config: StreamsConfig, name: str, properties: Mapping[str, str], topics: Collection[str]
) -> Stream | None:
    """The stream of a table that is there, or None where none can have made it.

    Args:
        config: streams.yaml.
        name: the table's.
        properties: what it says of itself.
        topics: those that it has read. It says nothing of its topic where an earlier version made it: then its mode and
            the order in streams.yaml decide.
    """
    mode = properties.get(MODE_PROPERTY)
    for topic in (properties.get(SOURCE_PROPERTY), properties.get(FIRST_PROPERTY)):
        streams = () if topic is None else config.streams_of(topic)
        if (stream := _first(streams, name, mode)) is not None:
            return stream
    read = [config.stream_of(topic) for topic in topics]
    every = [per for one in config.streams if one in read for per in one.per_table]
    return _first(every, name, mode)


def _first(streams: Iterable[Stream], name: str, mode: str | None) -> Stream | None:
    """The first stream that can have made a table, and if there is one, that has its mode.

    Where nothing tells the mode, a changelog beside a mirror comes before it: its name is the longer one.
    """
    able = [one for one in streams if may_be(one.table, name)]
    likely = [one for one in able if one.mode == mode] if mode is not None else []
    longest = max((len(one.table) for one in able), default=0)
    topics = able[0].topics if able else ""
    beside = [one for one in able if mode is None and one.topics == topics and len(one.table) == longest]
    return next(iter([*likely, *beside, *able]), None)


def why_not(name: str, owner: Stream, stream: Stream, topic: str) -> str | None:
    """Why messages of a stream's topic are none of a table, or None where they may be.

    Where no part of the table's name comes from a message, streams.yaml has said so.
    """
    if owner == stream or not (stream.source_parts or stream.fields):
        return None
    return (
        f"other_table:{name} is a table of the stream with the topics {owner.topics}, and these are of {topic}, which is another "
        f"stream's. Write {{schema}} or {{topic}} into `table`, or give both topics one stream. Where the source moved, set "
        f"{SOURCE_PROPERTY} (of a changelog: {FIRST_PROPERTY}) and start again"
    )
