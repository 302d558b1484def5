"""The Avro schemas that the workers of a batch are told, topic by topic."""

from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.formats import Format
from isotherm_ingest.registry import Registry

KEPT = 5_000
"""Of one topic: those that were met last. A worker that meets an older one asks again, and the registry is not asked."""


class Schemas:
    """What was fetched."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._of_topic: dict[str, dict[int, str]] = {}

    def told(self, topic: str, form: Format) -> Format:
        """The format of a topic, with the schemas that it has met."""
        return form.with_schemas(self._of_topic.get(topic, {})) if isinstance(form, Avro) else form

    def fetch(self, topic: str, form: Format, sample: str) -> bool:
        """Fetch what a sample asks for; gives whether it asked for anything.

        Raises:
            RegistryAwayError: not now.
            SchemaError: there is no such schema.
        """
        wanted = form.wanted(sample) if isinstance(form, Avro) else None
        for number in wanted or ():
            met = self._of_topic.setdefault(topic, {})
            met.pop(
                number, None
            )  # it was met just now: the schema of a key is met with each new one of a value
            met[number] = self._registry.schema(number)
            while len(met) > KEPT:
                del met[next(iter(met))]
        return wanted is not None
