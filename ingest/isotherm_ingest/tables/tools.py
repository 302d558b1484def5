"""What every writer of a pipeline shares."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from isotherm_ingest.announce.intents import Intents
from isotherm_ingest.dead_letter_topic import DeadLetters
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.tables.lake import Lake


@dataclass(frozen=True, slots=True)
class Tools:
    """What every writer uses."""

    lake: Lake
    intents: Intents
    dead_letters: DeadLetters
    metrics: Metrics
    pipeline: str
    ask: Callable[[Collection[str]], Kafka]
    """What the broker says now of the ends and the ids of some topics."""
