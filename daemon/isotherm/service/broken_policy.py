"""What can still be told of a policy file that is wrong, and of which no good version is known.

Its `tables:` are read from the events of YAML, up to the first error: a slip behind them hides no name.
"""

from collections.abc import Iterator

import yaml
from yaml.reader import Reader

from isotherm.core.policy.precedence import PolicyFile
from isotherm.core.policy.rulebook import Gap

MAX_DEPTH = 50
"""No policy is nested so deeply, and the reader takes the longer for each level."""
NOBODY_KNOWS = Gap()
"""A file that cannot be read at all."""


def gap_of(text: str) -> Gap | None:
    """The tables that a broken file is about, or None if the file is no policy.

    A file is no policy if it holds nothing but comments, or good YAML without a key of a policy.
    """
    seen = _Seen()
    unprintable = Reader.NON_PRINTABLE.search(text)
    # The reader would refuse all of it. The line may be half of a name.
    readable = text if unprintable is None else text[: text.rfind("\n", 0, unprintable.start()) + 1]
    is_yaml = unprintable is None
    try:
        seen.read(readable)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        is_yaml = False
    if is_yaml and not seen.is_other and not seen.keys & PolicyFile.model_fields.keys():
        return None
    tables = tuple(dict.fromkeys(name for name in seen.tables if name))
    # A line that lost its colon is read into the name before it.
    words = [word for name in tables if not is_yaml and len(name.split()) > 1 for word in name.split()]
    return Gap((*tables, *words), is_whole=bool(tables) and seen.is_whole and not words)


class _Seen:
    """What the events of YAML have shown so far."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        """Of a document as a whole."""
        self.tables: list[str] = []
        self.is_whole = True
        """Every value of `tables` was read to its end, and is a name or a list of names."""
        self.is_other = False
        """A document is no mapping."""

    def read(self, text: str) -> None:
        """Read on to the end, or up to an error, which is raised."""
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        for event in events:
            if isinstance(event, yaml.MappingStartEvent):
                self._mapping(events)
            elif isinstance(event, yaml.NodeEvent):
                is_empty = isinstance(event, yaml.ScalarEvent) and event.value in ("", "~", "null")
                self.is_other = self.is_other or not is_empty
                _skip(event, events)

    def _mapping(self, events: Iterator[yaml.Event]) -> None:
        for key in events:
            if isinstance(key, yaml.MappingEndEvent):
                return
            name = key.value if isinstance(key, yaml.ScalarEvent) else ""
            _skip(key, events)
            self.keys.add(name)
            if name == "tables":
                self._names(events)
            else:
                _skip(next(events), events)

    def _names(self, events: Iterator[yaml.Event]) -> None:
        was_whole, self.is_whole = self.is_whole, False
        first = next(events)
        if isinstance(first, yaml.ScalarEvent):
            self.tables.append(first.value)
        elif isinstance(first, yaml.SequenceStartEvent):
            for event in events:
                if isinstance(event, yaml.SequenceEndEvent):
                    break
                if isinstance(event, yaml.ScalarEvent):
                    self.tables.append(event.value)
                else:
                    was_whole = False
                    _skip(event, events)
        else:
            was_whole = False
            _skip(first, events)
        self.is_whole = was_whole


def _skip(event: yaml.Event, events: Iterator[yaml.Event]) -> None:
    """The rest of a value that began with an event."""
    level = int(isinstance(event, yaml.CollectionStartEvent))
    while level:
        if level > MAX_DEPTH:
            raise ValueError("nested too deeply")
        inner = next(events)
        level += isinstance(inner, yaml.CollectionStartEvent) - isinstance(inner, yaml.CollectionEndEvent)
