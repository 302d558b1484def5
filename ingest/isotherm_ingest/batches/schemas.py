"""The Avro schemas that the workers of a batch are told, topic by topic."""

from collections.abc import Collection
from typing import Any

from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.avro_schema import parsed
from isotherm_ingest.decode.formats import Format
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.registry import NotKnownYetError, Registry, RegistryAwayError, StillUnknownError

KEPT = 5_000
"""Of one topic: those that were met last. A worker that meets an older one asks again, and the registry is not asked."""
ASKED_AGAIN = 20
"""Ids in keys of one topic that are asked for at the beginning of a batch, in turn; there is one, as a rule, and garbage has any."""


class Schemas:
    """What was fetched."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._of_topic: dict[str, dict[int, str]] = {}
        self._no_keys: dict[str, dict[int, bool]] = {}
        """Ids in keys that count as none; and whether the registry may know them some day."""

    def told(self, topic: str, form: Format) -> Format:
        """The format of a topic, with the schemas that it has met."""
        if not isinstance(form, Avro):
            return form
        return form.with_schemas(self._of_topic.get(topic, {}), self._no_keys.get(topic, {}))

    def fetch(self, topic: str, form: Format, sample: str, *, needs_key: bool) -> bool:
        """Fetch what a sample asks for; gives whether it asked for anything.

        Args:
            topic: the messages' topic.
            form: their format.
            sample: what a worker sent.
            needs_key: whether the fields of keys are the table's key. Elsewhere nothing but a delete that has only its key waits
                for a key's schema: most keys that are none of Avro have an id by chance.

        Raises:
            RegistryAwayError: not now.
            SchemaError: there is no such schema.
        """
        if not isinstance(form, Avro):
            return False
        wanted, deletes = form.wanted(sample), form.has_deletes(sample)
        for place, number in enumerate(wanted or ()):
            try:
                text = self._registry.schema(number)
                if place:
                    parsed(text)
            except NotKnownYetError:
                if not place or needs_key or deletes:
                    raise
                if deletes is not None:  # else the workers say so in the next sample
                    _keep(self._no_keys, topic, number, True)
            except SchemaError as err:
                if not place:
                    raise
                _keep(self._no_keys, topic, number, isinstance(err, StillUnknownError))
            else:
                _keep(self._of_topic, topic, number, text)
        return wanted is not None

    def forget_for_now(self, topics: Collection[str]) -> None:
        """Ask again, before the next batch of some topics, for schemas of keys that may be known by now.

        One that still has its time is met by the workers again: a delete among the messages may have to wait for it. All others
        stay as they are, and cost the batch no second reading.
        """
        for topic in set(topics) & self._no_keys.keys():
            unknown = [number for number, may_come in self._no_keys[topic].items() if may_come]
            for number in unknown[:ASKED_AGAIN]:
                try:
                    self._registry.schema(number)
                except StillUnknownError:
                    _keep(self._no_keys, topic, number, True)
                except RegistryAwayError as err:
                    if not isinstance(err, NotKnownYetError):
                        break
                    del self._no_keys[topic][number]
                except SchemaError:
                    _keep(self._no_keys, topic, number, False)
                else:
                    del self._no_keys[topic][number]


def _keep(kept: dict[str, dict[int, Any]], topic: str, number: int, value: Any) -> None:
    met = kept.setdefault(topic, {})
    met.pop(number, None)  # it was met just now: the schema of a key is met with each new one of a value
    met[number] = value
    while len(met) > KEPT:
        del met[next(iter(met))]
