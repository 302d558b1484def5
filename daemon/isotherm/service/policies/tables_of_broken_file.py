"""What can still be told of a policy file that is wrong, and of which no good version is known.

Its `tables:` are read from the events of YAML, up to the first error: a slip behind them hides no name. A key that is
only nearly `tables`, or stands too deep, was meant so too.
"""

import difflib
from collections.abc import Collection, Iterator

import yaml
from yaml.reader import Reader

from isotherm.core.policy.patterns import is_bounded, words
from isotherm.core.policy.precedence import PolicyFile
from isotherm.core.policy.rulebook import Gap
from isotherm.runtime.yaml_reader import MAX_DEPTH

MAX_EVENTS = 20_000
"""Twice the values that a policy file may have: the reader takes some 15 µs for each."""
MAX_NAMES = 500
"""Every table is compared with those that begin with a wildcard; what comes behind is left out."""
NEAR = 0.7
"""How alike two keys must be for `difflib`: `Tables`, `table` and `tabel` are `tables`, `labels` is not."""
NOBODY_KNOWS = Gap()
"""A file that cannot be read at all."""


def gap_of(text: str) -> Gap | None:
    """The tables that a broken file is about, or None if the file is no policy.

    No policy is what holds nothing but comments, and good YAML without a key that is, or is nearly, one of a policy.
    """
    seen = _Seen()
    unprintable = Reader.NON_PRINTABLE.search(text)
    # The reader would refuse all of it. The line may be half of a name.
    readable = text if unprintable is None else text[: text.rfind("\n", 0, unprintable.start()) + 1]
    is_yaml = unprintable is None
    try:
        seen.read(readable)
    except Exception:  # noqa: BLE001 (also a mistake of ours must not hide the names before it)
        is_yaml = False
    if is_yaml and not seen.is_other and not seen.is_policy:
        return None
    return seen.gap(is_yaml=is_yaml)


class _Seen:
    """What the events of YAML have shown so far."""

    def __init__(self) -> None:
        self.is_policy = False
        """A document has a key of a policy, or nearly."""
        self.tables: list[str] = []
        self.is_whole = True
        """Every value of `tables` was read to its end, is a name or a list of names, and stands where it should."""
        self.is_other = False
        """A document is no mapping."""

    def gap(self, *, is_yaml: bool) -> Gap:
        """The tables that were named, as far as they can be compared with names in bounded time."""
        names = [name for name in self.tables if name]
        parts = [part for name in names for part in words(name)]
        tables = tuple(dict.fromkeys(name for name in (*names, *parts) if is_bounded(name)))
        # In a file that is no YAML a line that lost its colon is read into the name before it.
        is_whole = bool(tables) and self.is_whole and (is_yaml or not parts)
        is_whole = is_whole and len(tables) <= MAX_NAMES and all(is_bounded(name) for name in names)
        return Gap(tables[:MAX_NAMES], is_whole=is_whole)

    def read(self, text: str) -> None:
        """Read on to the end, or up to an error, which is raised."""
        events = _bounded(yaml.parse(text, Loader=yaml.SafeLoader))
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                is_empty = isinstance(event, yaml.ScalarEvent) and event.value in ("", "~", "null")
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                self.is_other = self.is_other or not (is_empty or is_mapping)
                self.value(event, events, 0)

    def value(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> None:
        """The rest of a value that began with an event."""
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if isinstance(event, yaml.MappingStartEvent):
            self._mapping(events, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            for item in events:
                if isinstance(item, yaml.SequenceEndEvent):
                    return
                self.value(item, events, depth + 1)

    def _mapping(self, events: Iterator[yaml.Event], depth: int) -> None:
        for key in events:
            if isinstance(key, yaml.MappingEndEvent):
                return
            name = key.value if isinstance(key, yaml.ScalarEvent) else ""
            self.value(key, events, depth + 1)
            if _is_near(name, ("tables",)):
                self.is_policy = True
                self._names(events, depth)
                self.is_whole = self.is_whole and name == "tables" and depth == 0
            elif depth == 0 and _is_near(name, ("tests",)):
                self.is_policy = True
                # The `table:` of a case only asks which verdict one table has.
                _Seen().value(next(events), events, depth + 1)
            else:
                self.is_policy = self.is_policy or (depth == 0 and _is_near(name, PolicyFile.model_fields))
                self.value(next(events), events, depth + 1)

    def _names(self, events: Iterator[yaml.Event], depth: int) -> None:
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
                    self.value(event, events, depth + 2)
        else:
            was_whole = False
            self.value(first, events, depth + 1)
        self.is_whole = was_whole


def _bounded(events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
    for number, event in enumerate(events):
        if number >= MAX_EVENTS:
            raise ValueError("more than any policy has")
        yield event


def _is_near(key: str, known: Collection[str]) -> bool:
    """Whether a key is one of those that are known, but for a slip."""
    return bool(difflib.get_close_matches(key[:80].casefold(), known, n=1, cutoff=NEAR))
