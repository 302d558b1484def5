"""Up to where a reader has read a table, as a person or a job says it.

Apart from `reader`, because the clients of the catalog and the broker take seconds to import.
"""

from isotherm.commands.unknown_table import in_the_catalog
from isotherm.contract.readers import ReadPosition, encode_position
from isotherm.iceberg.catalog import IcebergCatalog, connect_to_read
from isotherm.iceberg.read_positions import position_in
from isotherm.kafka.broker import ensure_topic
from isotherm.kafka.keyed_topic import TOPIC, KafkaKeyedTopic
from isotherm.runtime.config import IsothermConfig
from isotherm.service.ports import LoadedTable


def say(
    config: IsothermConfig,
    table: str,
    reader: str,
    at_ms: int,
    snapshot_id: int | None,
    checkpoint: str | None,
) -> ReadPosition:
    """Say up to which snapshot a reader has read.

    Raises:
        UnknownTable: the catalog has no such table.
        ValueError: the table has no such snapshot, or none, or the name is none.
        Unavailable: the broker, the catalog or the checkpoint does not answer.
    """
    position = position_in(_loaded(config, table), reader, at_ms, snapshot_id, checkpoint)
    _topic(config).write(position.key, encode_position(position))
    return position


def take_back(config: IsothermConfig, table: str, reader: str) -> None:
    """Say that somebody is no reader of a table any more. Raises UnknownTable, ValueError, Unavailable."""
    loaded = _loaded(config, table).table
    was = ReadPosition(table_uuid=loaded.uuid, table=loaded.name, reader=reader, snapshot_id=0, at_ms=0)
    _topic(config).write(was.key, None)


def _loaded(config: IsothermConfig, table: str) -> LoadedTable:
    with in_the_catalog(table, config):
        return IcebergCatalog(connect_to_read(config.catalog)).load(table)


def _topic(config: IsothermConfig) -> KafkaKeyedTopic:
    """The topic, made where it is not there. Raises Unavailable where the broker does not answer."""
    kafka = config.kafka
    ensure_topic(kafka.properties, kafka.reader_topic, config=TOPIC)
    return KafkaKeyedTopic(kafka.properties, kafka.reader_topic)
