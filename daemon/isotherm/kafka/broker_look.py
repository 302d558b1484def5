"""What the brokers say of themselves, of topics and of groups, and what we may do there. Nothing is written.

Brokers tell who asks which operations are allowed, as `describe` of each thing. So no right has to be tried.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from isotherm.runtime.kafka_client import kafka_client
from isotherm.service.ports import Refused, Unavailable

FIRST_TIMEOUT_S = 5.0
"""For the first question: brokers that cannot be reached are tried again for so long."""
TIMEOUT_S = 8.0
"""For one question. A check waits for ten seconds, and is to say what was wrong."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The cluster."""

    brokers: tuple[str, ...]
    may: frozenset[str] | None
    """What we may do to the cluster as a whole; None where it does not tell."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic."""

    partitions: int
    without_leader: int
    copies: int
    """The fewest that a partition has."""
    may: frozenset[str] | None
    config: Mapping[str, str]
    """Empty where it may not be read."""


class BrokerLook:
    """Looks at the brokers."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        """Connect when somebody asks. Raises PropertyError: librdkafka does not take the properties."""
        self._causes: list[str] = []
        client: dict[str, Any] = {**properties, "log_level": 0}
        for name in ("group.instance.id", "session.timeout.ms", "max.poll.interval.ms"):
            client.pop(name, None)
        client["error_cb"] = lambda error: self._causes.append(error.str())
        self._servers = str(properties.get("bootstrap.servers", ""))
        self._admin = kafka_client(AdminClient, client)

    def brokers(self) -> Brokers:
        """The brokers. Raises Unavailable."""
        asked = self._admin.describe_cluster(
            include_authorized_operations=True, request_timeout=FIRST_TIMEOUT_S
        )
        found = self._answer("none answers", asked)
        return Brokers(
            tuple(sorted(f"{one.host}:{one.port}" for one in found.nodes)),
            _names(found.authorized_operations),
        )

    def topic(self, name: str) -> Topic | None:
        """A topic, or None where it is not there. Raises Unavailable."""
        asked = self._admin.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        try:
            found = self._answer(f"topic {name}", asked[name])
        except _MissingError:
            return None
        parts = found.partitions
        return Topic(
            partitions=len(parts),
            without_leader=sum(one.leader is None for one in parts),
            copies=min((len(one.replicas) for one in parts), default=0),
            may=_names(found.authorized_operations),
            config=self._config(name),
        )

    def group(self, name: str) -> tuple[int, frozenset[str] | None]:
        """How many members a group has, and what we may do to it. Raises Unavailable."""
        # A cluster that has never had a group makes the topic of its groups first, and one that starts reads it.
        again = Retrying(
            retry=retry_if_exception_type(_NotYetError),
            wait=wait_fixed(0.2),
            stop=stop_after_delay(TIMEOUT_S),
            reraise=True,
        )

        def ask() -> Any:
            asked = self._admin.describe_consumer_groups(
                [name], include_authorized_operations=True, request_timeout=TIMEOUT_S
            )
            return self._answer(f"group {name}", asked[name])

        try:
            found = again(ask)
        except _MissingError:  # nobody was ever in it
            return 0, None
        return len(found.members), _names(found.authorized_operations)

    def held_back(self, topic: str, partitions: int) -> dict[int, int]:
        """By partition, how many messages stand behind the oldest open transaction. Raises Unavailable."""
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        stable, ends = (
            self._admin.list_offsets(
                {part: OffsetSpec.latest() for part in parts},  # type: ignore[no-untyped-call]
                isolation_level=level,
                request_timeout=TIMEOUT_S,
            )
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        what = f"the ends of topic {topic}"
        behind = {
            part.partition: self._answer(what, ends[part]).offset - self._answer(what, stable[part]).offset
            for part in parts
        }
        return {number: count for number, count in behind.items() if count > 0}

    def newest_ms(self, topic: str, partitions: int) -> int | None:
        """The latest time of all messages in a topic, or None where it has none. Raises Unavailable."""
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        asked = self._admin.list_offsets(
            {part: OffsetSpec.max_timestamp() for part in parts},  # type: ignore[no-untyped-call]
            request_timeout=TIMEOUT_S,
        )
        found = [self._answer(f"the newest message of topic {topic}", asked[part]) for part in parts]
        return max((one.timestamp for one in found if one.offset >= 0), default=None)

    def _config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = self._admin.describe_configs([resource], request_timeout=TIMEOUT_S)
        try:
            found = self._answer(f"the configuration of topic {topic}", asked[resource])
        except Refused:
            return {}
        return {name: str(entry.value) for name, entry in found.items()}

    def _answer(self, what: str, asked: Any) -> Any:
        try:
            return asked.result(TIMEOUT_S)
        except KafkaException as err:
            failed: Exception = err
            error = err.args[0]
            if error.code() in _MISSING:
                raise _MissingError from err
            kind = _KINDS.get(error.code(), Unavailable)
            why = error.str().strip().rstrip(":") or error.name()
        except TimeoutError as err:
            failed, kind, why = err, Unavailable, f"no answer in {TIMEOUT_S:.0f} s"
        # The error itself names no broker; what the client was told on the way does.
        self._admin.poll(0)
        cause = self._causes[-1] if self._causes and kind is not Refused else f"brokers: {self._servers}"
        raise kind(f"{what}: {why} ({cause})") from failed


class _MissingError(Exception):
    """There is no such thing."""


class _NotYetError(Unavailable):
    """In a moment there may be an answer."""


_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})
_KINDS: Mapping[int, type[Unavailable]] = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: _NotYetError,
    KafkaError.COORDINATOR_NOT_AVAILABLE: _NotYetError,
    KafkaError.NOT_COORDINATOR: _NotYetError,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Refused,
    KafkaError.GROUP_AUTHORIZATION_FAILED: Refused,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: Refused,
}


def _names(operations: Any) -> frozenset[str] | None:
    """Operations by name, in lower case; None where the broker knows nothing of them."""
    return None if operations is None else frozenset(one.name.lower() for one in operations)
