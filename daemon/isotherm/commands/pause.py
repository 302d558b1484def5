"""What a person tells the daemons: pause a table, let it go on.

Orders are written to the topic that every daemon reads before it begins or commits anything, so it does not matter
which of them maintains the table, or whether any runs. They take effect within a planning round.
"""

from pathlib import Path

from rich.text import Text

from isotherm.commands.terminal import out, plain_errors, span_option_ms
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.units import span_text
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.kafka.client import ensure_topic
from isotherm.kafka.hold_topic import TOPIC, KafkaHolds
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import IsothermConfig, load_config
from isotherm.service.holds import read_hold
from isotherm.service.ports import Unavailable
from isotherm.store.database import to_json


def pause_table(table: str, for_: str | None, why: str, config: Path) -> None:
    """Leave a table alone, for a time or until `resume`; whichever daemon maintains it."""
    for_ms = span_option_ms(for_, "--for")
    with plain_errors():
        at_ms = now_ms()
        Orders(load_config(config)).pause(table, why, at_ms, None if for_ms is None else at_ms + for_ms)
        until = "until `isotherm resume`" if for_ms is None else f"for {span_text(for_ms)}"
        out.print(f"{table} is paused {until}; it takes effect within a planning round")


def resume_tables(table: str | None, config: Path) -> None:
    """Lift whatever holds a table back: a halt, a pause, quarantines. Look at `explain` before."""
    with plain_errors():
        lifted = Orders(load_config(config)).resume(table)
        for hold in lifted:
            what = ": ".join(part for part in (hold.partition, hold.why) if part)
            out.print(Text(f"{hold.kind} lifted: {what}"))
        if not lifted:
            out.print("nothing was held back")


TIMEOUT_S = 15


class Orders:
    """The topic, as a person writes to it."""

    def __init__(self, config: IsothermConfig) -> None:
        """Look for the broker.

        Raises:
            Unavailable: it does not answer.
        """
        self._config = config
        ensure_topic(config.kafka.properties, config.kafka.hold_topic, config=TOPIC)
        self._topic = KafkaHolds(config.kafka.properties, config.kafka.hold_topic)

    def pause(self, table: str, why: str, at_ms: int, until_ms: int | None) -> None:
        """Leave a table alone from now on. Raises TableMissing, Unavailable."""
        hold = Hold(HoldKind.PAUSE, self._uuid(table), table, why, at_ms, until_ms=until_ms)
        self._topic.write(hold.key, to_json(hold).encode())

    def resume(self, table: str | None) -> list[Hold]:
        """Lift what holds a table back; None: what keeps daemons with a new ledger from deleting. Gives what it was.

        Raises TableMissing, Unavailable.
        """
        uuid = None if table is None else self._uuid(table)
        lifted = [
            hold
            for hold in self._standing()
            if (hold.kind is HoldKind.LEDGER if uuid is None else hold.uuid == uuid)
        ]
        for hold in lifted:
            self._topic.write(hold.key, None)
        return lifted

    def _uuid(self, table: str) -> str:
        return IcebergCatalog(connect(self._config.catalog)).load(table).table.uuid

    def _standing(self) -> list[Hold]:
        reading = self._topic.read(TIMEOUT_S)
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
