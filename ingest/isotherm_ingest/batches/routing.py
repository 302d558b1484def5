"""Which table a message belongs to, told by its topic and its schema.

A schema is looked at once, in one message of it. What belongs nowhere is sent to the dead letters, with the reason.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Row, SparkSession

from isotherm.runtime import logs
from isotherm_ingest.dead_letters import DeadLetters
from isotherm_ingest.decode.debezium import ChangeSchema, change_schema
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.sql.raw import NO_SCHEMA
from isotherm_ingest.sql.text import literal
from isotherm_ingest.streams import PLACEHOLDER, Stream, StreamsConfig
from isotherm_ingest.tables.offsets import Position

SCHEMAS_AT_ONCE = 500
"""Unknown schemas that one query asks for; real tables bring a few a day, garbage may bring thousands."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the messages of one topic and schema go, or why they go nowhere."""

    table: str | None
    stream: Stream | None
    schema: ChangeSchema | None
    problem: str | None = None


class Routing:
    """Where the messages of each topic and schema go, learned from one message of each."""

    def __init__(self, config: StreamsConfig, dead_letters: DeadLetters) -> None:
        """Nothing is known yet."""
        self._config = config
        self._dead_letters = dead_letters
        self._routes: dict[tuple[str, int], Route] = {}
        self._sent: dict[Position, tuple[str, int, int]] = {}
        """Of each partition the last range whose dead letters of no table were sent, and the id of its topic. A batch that is
        tried again begins where that one did, and sends none twice."""

    def of(self, topic: str, schema_hash: int) -> Route | None:
        """Where they go, or None where no message of them was seen yet."""
        return self._routes.get((topic, schema_hash))

    def topics_of(self, table: str) -> set[str]:
        """The topics from which a table has its rows."""
        return {topic for (topic, _), route in self._routes.items() if route.table == table}

    def learn(self, view: str, session: SparkSession, groups: set[tuple[str, int]]) -> None:
        """Find out where the messages of schemas go that were not seen before, from one message of each."""
        unknown = sorted(
            {schema_hash for topic, schema_hash in groups if (topic, schema_hash) not in self._routes}
        )
        for start in range(0, len(unknown), SCHEMAS_AT_ONCE):
            hashes = ", ".join(f"{schema_hash}L" for schema_hash in unknown[start : start + SCHEMAS_AT_ONCE])
            samples = session.sql(
                "SELECT topic, _schema, first(struct(CAST(value AS STRING) AS value, CAST(key AS STRING) AS key)) AS one "
                f"FROM {view} WHERE _schema IN ({hashes}) AND is_valid_utf8(CAST(value AS STRING)) "
                "AND get_json_object(CAST(value AS STRING), '$.payload.op') IS NOT NULL GROUP BY topic, _schema"
            ).collect()
            self._keep_routes(samples)

    def _keep_routes(self, samples: list[Row]) -> None:
        for row in samples:
            if (row["topic"], row["_schema"]) in self._routes:
                continue
            route = self._route(row["topic"], row["one"]["value"], row["one"]["key"])
            self._routes[row["topic"], row["_schema"]] = route
            if route.problem is not None:
                logs.get().error("schema_refused", topic=row["topic"], why=route.problem)
            else:
                logs.get().info("schema_learned", topic=row["topic"], table=route.table)

    def _route(self, topic: str, value: str, key: str | None) -> Route:
        stream = self._config.stream_of(topic)
        if stream is None:
            return Route(None, None, None, "no_stream:no stream has this topic")
        try:
            schema = change_schema(value, key)
            return Route(table_name(stream.table, topic, schema), stream, schema)
        except SchemaError as err:
            return Route(None, stream, None, f"no_schema:{err}")

    def dead_letter_unrouted(
        self,
        view: str,
        session: SparkSession,
        groups: set[tuple[str, int]],
        batch: int,
        ranges: Ranges,
        ids: Mapping[str, str],
    ) -> None:
        """Send on what has no table, once: no schema, no envelope, no name."""
        routed = [
            group for group in sorted(groups) if (route := self._routes.get(group)) and route.problem is None
        ]
        if len(routed) == len(groups):
            return
        whens = ["WHEN value IS NULL THEN NULL"]
        whens += [f"WHEN {_is_group(group)} THEN NULL" for group in routed]
        whens += [
            f"WHEN {_is_group(group)} THEN {literal(route.problem)}"
            for group in sorted(groups)
            if (route := self._routes.get(group)) and route.problem is not None
        ]
        whens.append(f"WHEN _schema = {NO_SCHEMA}L THEN 'no_schema:the message has no schema'")
        whens.append("ELSE 'undecodable:no readable change event'")
        sent = [
            f"(topic = {literal(topic)} AND partition = {partition} AND offset < {end})"
            for (topic, partition), (topic_id, first, end) in sorted(self._sent.items())
            if (topic, partition) in ranges
            and (topic_id, first) == (ids.get(topic, ""), ranges[topic, partition][0])
        ]
        new = f"AND NOT ({' OR '.join(sent)})" if sent else ""
        bad = session.sql(
            f"SELECT * FROM (SELECT *, CASE {' '.join(whens)} END AS problem FROM {view}) WHERE problem IS NOT NULL {new}"
        )
        count = self._dead_letters.send(bad)
        self._sent |= {one: (ids.get(one[0], ""), *span) for one, span in ranges.items()}
        logs.get().warning("dead_lettered", table=None, rows=count, batch=batch)


def _is_group(group: tuple[str, int]) -> str:
    return f"topic = {literal(group[0])} AND _schema = {group[1]}L"


def table_name(template: str, topic: str, schema: ChangeSchema) -> str:
    """The table's name for a change, from a stream's template.

    Raises:
        SchemaError: the source has no name that a table could have.
    """
    values = {
        "table": schema.source_table,
        "schema": schema.source_schema,
        "topic": re.sub(r"[^A-Za-z0-9_]", "_", topic),
    }
    name = PLACEHOLDER.sub(lambda match: values[match[1]], template)
    if not re.fullmatch(r"[^.\s`]+(\.[^.\s`]+)+", name):
        raise SchemaError(f"{name!r} cannot be the name of a table")
    return name


def may_be(template: str, name: str) -> bool:
    """Whether a stream's template can give this name."""
    parts = PLACEHOLDER.split(template)  # texts and the names of placeholders, in turn
    pattern = "".join(re.escape(part) if place % 2 == 0 else r"[^.\s`]+" for place, part in enumerate(parts))
    return re.fullmatch(pattern, name) is not None
