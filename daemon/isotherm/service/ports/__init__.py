"""What the service needs of the world: small Protocols, so that the loop can be tried without it.

Each has a real adapter at the edge, and a fake in the tests that passes the same contract tests.
"""

from collections.abc import Callable

from isotherm.core.observations import Observation
from isotherm.service.ports.broker import (
    Announced,
    DeadLetters,
    Decoder,
    EventSource,
    KeyedReading,
    KeyedTopic,
    Message,
    SourceTopics,
)
from isotherm.service.ports.catalog import (
    Catalog,
    Count,
    GoOn,
    Lies,
    Listing,
    LoadedTable,
    Looked,
    Scan,
    without_end,
)
from isotherm.service.ports.errors import (
    Fenced,
    NotAnnounced,
    NotAsked,
    NotYetKnown,
    NoWord,
    Refused,
    StoreAway,
    TableMissing,
    TableSilent,
    TooLong,
    Unavailable,
    UnknownTable,
    Unreadable,
)
from isotherm.service.ports.maintainer import (
    Bound,
    Expired,
    ExpiryReading,
    Maintainer,
    MayCommit,
    Search,
    Sweep,
    Swept,
    UnusedSpecs,
)

Listener = Callable[[Observation], None]
"""Somebody who wants to know; it must not raise."""

__all__ = [
    "Announced",
    "Bound",
    "Catalog",
    "Count",
    "DeadLetters",
    "Decoder",
    "EventSource",
    "Expired",
    "ExpiryReading",
    "Fenced",
    "GoOn",
    "KeyedReading",
    "KeyedTopic",
    "Lies",
    "Listener",
    "Listing",
    "LoadedTable",
    "Looked",
    "Maintainer",
    "MayCommit",
    "Message",
    "NoWord",
    "NotAnnounced",
    "NotAsked",
    "NotYetKnown",
    "Refused",
    "Scan",
    "Search",
    "SourceTopics",
    "StoreAway",
    "Sweep",
    "Swept",
    "TableMissing",
    "TableSilent",
    "TooLong",
    "Unavailable",
    "UnknownTable",
    "Unreadable",
    "UnusedSpecs",
    "without_end",
]
