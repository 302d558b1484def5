"""The topic with what holds tables back, as a person writes to it.

Apart from `pause`, because the clients of the catalog and the broker take seconds to import.
"""

from isotherm.commands.unknown_table import in_the_catalog
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.iceberg.catalog import IcebergCatalog, connect_to_read
from isotherm.kafka.broker import ensure_topic
from isotherm.kafka.keyed_topic import TOPIC, KafkaKeyedTopic
from isotherm.runtime.config import IsothermConfig
from isotherm.service.ports import Unavailable
from isotherm.service.topics.holds import read_hold
from isotherm.store.database import to_json

TIMEOUT_S = 15


class Orders:
    """The topic, as a person writes to it."""

    def __init__(self, config: IsothermConfig) -> None:
        self._config = config

    def pause(self, table: str, why: str, at_ms: int, until_ms: int | None) -> None:
        """Leave a table alone from now on. Raises UnknownTable, Unavailable."""
        hold = Hold(HoldKind.PAUSE, self._uuid(table), table, why, at_ms, until_ms=until_ms)
        self._topic().write(hold.key, to_json(hold).encode())

    def resume(self, table: str | None) -> list[Hold]:
        """Lift what holds a table back, and return what it was.

        Without a table it lifts what keeps daemons with a new ledger from deleting.

        Raises UnknownTable, Unavailable.
        """
        uuid = None if table is None else self._uuid(table)
        topic = self._topic()
        lifted = [
            hold
            for hold in self._standing(topic)
            if (hold.kind is HoldKind.LEDGER if uuid is None else hold.uuid == uuid)
        ]
        for hold in lifted:
            topic.write(hold.key, None)
        return lifted

    def _topic(self) -> KafkaKeyedTopic:
        """The topic, made where it is not there. Raises Unavailable where the broker does not answer."""
        kafka = self._config.kafka
        ensure_topic(kafka.properties, kafka.hold_topic, config=TOPIC)
        return KafkaKeyedTopic(kafka.properties, kafka.hold_topic)

    def _uuid(self, table: str) -> str:
        with in_the_catalog(table, self._config):
            return IcebergCatalog(connect_to_read(self._config.catalog)).load(table).table.uuid

    def _standing(self, topic: KafkaKeyedTopic) -> list[Hold]:
        reading = topic.read(TIMEOUT_S)
        if reading is None:
            raise Unavailable(
                f"topic {self._config.kafka.hold_topic} could not be read to its end in {TIMEOUT_S} s"
            )
        found = []
        for key, value in reading.records.items():
            try:
                found += [] if value is None else [read_hold(key, value)]
            except ValueError:  # none of ours: the daemon says so
                continue
        return found
