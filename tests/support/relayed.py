"""What a source says of a table's commits, and what is heard of it."""

from collections import Counter

from isotherm.contract.events import decode
from isotherm.core import observations as seen
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.kafka.formats import FORMATS
from isotherm.service.ports import Unavailable
from isotherm.service.topics.relay import Sources
from support.memory_topics import MemorySources, Topic

TOPIC = "control-iceberg"


class Heard:
    """A daemon of a lab with a source, and what it has heard."""

    def __init__(self, lab, **more):
        self.lab = lab
        self.topic = Topic()
        self.committed = {}
        self.service = self.open(**more)

    def open(self, **more):
        topics = MemorySources({TOPIC: self.topic}, self.committed)
        sources = Sources(topics, {TOPIC: FORMATS["iceberg-kafka-connect"]})
        service = self.lab.service(sources=sources, **more)
        service.start()
        return service

    def hear(self, *messages):
        self.topic.messages.extend(messages)
        self.service.relay.turn()

    @property
    def outcomes(self):
        return Counter(one.outcome for one in self.lab.seen if isinstance(one, seen.SourceHeard))

    @property
    def published(self):
        return [decode(value) for value in self.lab.topic.messages]


class AwayCatalog(IcebergCatalog):
    """A catalog that does not answer until it is told to."""

    is_away = True

    def load(self, name):
        if self.is_away:
            raise Unavailable("the catalog: no answer")
        return super().load(name)

    def ask(self):
        if self.is_away:
            raise Unavailable("the catalog: no answer")
        super().ask()
