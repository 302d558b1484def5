"""The keys that we write into summaries and properties of tables, and what they say of a snapshot.

They are in tables that outlive every version of this program, so a key never changes its meaning.
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum


class Origin(StrEnum):
    """Who made a snapshot, told by the keys of its summary."""

    INGEST = "ingest"
    MAINTENANCE = "maintenance"
    FOREIGN = "foreign"


JOB_ID = "isotherm.job-id"
"""Whose work a snapshot of ours is: of several jobs the first."""
JOB_IDS = "isotherm.job-ids"
"""All of them, with commas between, where one snapshot swaps the files of several."""

POLICY_HASH = "isotherm.policy-hash"

WINDOW_ID = "isotherm.window-id"
"""The window that its writers had granted, where files of a partition that was hot otherwise were swapped in it."""

COMMITTED_AT = "isotherm.committed-at-ms"
"""When we made a snapshot. Its own time may lie before that, by `BEHIND_MS` at most."""

BEHIND_MS = 10 * 60_000
"""A snapshot of ours is stamped so far back, where that is not before its parent. Iceberg's Java refuses a commit that a
writer stamps a minute before the last one, and nobody's clock is to be set for us."""

INGEST_TOKEN = "ingest.source"  # noqa: S105 (the summary key of the offset vector, not a secret)

INGEST_PIPELINE = "ingest.pipeline"

_TAKEN_AT, _AS_OF = "taken-at", "as-of"
NOWHERE = -1
"""In the place of a snapshot: `main` went back behind the one that a vector is taken from."""

INGEST_VALID_THROUGH = "ingest.valid-through"

DUPLICATE_DELETES = "deleted-duplicate-files"
"""Files that manifests named twice and that left: Iceberg's Java takes each away from its totals once."""


KAFKA_CONNECT_OFFSETS = "kafka.connect.offsets."
"""Where Iceberg's sink keeps its place: this, its control topic and its group. It looks no further than snapshots."""

FLINK_CHECKPOINT, FLINK_OPERATOR = "flink.max-committed-checkpoint-id", "flink.operator-id"
FLINK_JOB = "flink.job-id"
"""Where Flink's sink keeps its place, and whose it is. A job that is started again has another id, and the same operators. So
have two jobs of one program: each looks for its own id and operator."""

ADDED_VECTORS, ADDED_EQUALITY_DELETES = "added-dvs", "added-equality-delete-files"
"""How many deletion vectors a snapshot brought, and how many files of equality deletes."""

SPARK_QUERY = "spark.sql.streaming.queryId"
"""Whose place it is that Spark's streaming sink keeps: it is the same as long as the checkpoint is."""


NUMBER = re.compile(r"-?[0-9]{1,18}")
"""A number in a summary; a longer one fits nowhere, and says nothing."""


def is_counter(name: str) -> bool:
    """Whether a key of a summary is one of those that totals are compared by."""
    return name.startswith("total-") or name == DUPLICATE_DELETES


STAGED_AS = "wap.id"
"""Under which name a snapshot was staged, to be published after a look at it."""
REPLACES_PARTITIONS = "replace-partitions"
"""Whether an overwrite was one of whole partitions (a dynamic one)."""
PICKED_FROM = "source-snapshot-id"
"""The staged snapshot that a cherry-pick has published."""


_INGEST = "ingest."
_FLINK = "flink."


def token_of(summary: Mapping[str, str]) -> str:
    """The name of whose place in its source the snapshot with this summary keeps, or empty if it keeps none.

    Of Flink it is a run of a writer: `writer_of` names the writer.
    """
    if INGEST_TOKEN in summary:
        return f"{_INGEST}{summary.get(INGEST_PIPELINE, '')}"
    if FLINK_CHECKPOINT in summary:
        return f"{_FLINK}{summary.get(FLINK_OPERATOR, '')}/{summary.get(FLINK_JOB, '')}"
    if SPARK_QUERY in summary:
        return f"spark.{summary[SPARK_QUERY]}"
    return next((name for name in summary if name.startswith(KAFKA_CONNECT_OFFSETS)), "")


def pipeline_of(token: str) -> str:
    """The pipeline of Isotherm's ingest that keeps its place under a name of `token_of`; empty where it is another's."""
    return token.removeprefix(_INGEST) if token.startswith(_INGEST) else ""


def writer_of(token: str) -> str:
    """Whose run keeps its place under a name of `token_of`; of all but Flink a writer is one run."""
    return token.rpartition("/")[0] if token.startswith(_FLINK) and "/" in token else token


def origin_of(summary: Mapping[str, str]) -> Origin:
    """Who made the snapshot with this summary."""
    if JOB_ID in summary:
        return Origin.MAINTENANCE
    if INGEST_TOKEN in summary:
        return Origin.INGEST
    return Origin.FOREIGN


def jobs_of(summary: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the jobs that the snapshot with this summary has done; none where it is not ours."""
    if JOB_ID not in summary:
        return ()
    return tuple(summary.get(JOB_IDS, summary[JOB_ID]).split(","))


def committed_at_of(summary: Mapping[str, str], stamped_at_ms: int) -> int:
    """When a snapshot with this summary and this time of its own was made."""
    text = summary.get(COMMITTED_AT, "") if JOB_ID in summary else ""
    said_ms = int(text) if NUMBER.fullmatch(text) else stamped_at_ms
    return min(max(said_ms, stamped_at_ms), stamped_at_ms + BEHIND_MS)


def valid_through_of(summary: Mapping[str, str]) -> int | None:
    """The event time that the writer vouches for, where it does."""
    text = summary.get(INGEST_VALID_THROUGH, "")
    return int(text) if NUMBER.fullmatch(text) else None


def property_name(pipeline: str) -> str:
    """The table property that holds the newest vector, once its snapshot may have expired."""
    return f"ingest.{pipeline}.source"


MAX_TOKEN_CHARS = 1_000_000
"""A vector of 40,000 Kafka partitions. More is not ingest's, and what it is made of would take twenty times its size."""
_MAX_KEPT_CHARS = MAX_TOKEN_CHARS + 1_000
"""With what is said beside it."""


def kept_token(token: str, sequence_number: int, as_of: int) -> str:
    """The value of that property: the vector, the sequence number of the snapshot that it is taken from, and a later one.

    Up to the snapshot `as_of` it is the newest of `main`. The property stays when the table is rolled back, and when others
    expire newer ones: by both a reader sees whether it says what the table has.
    """
    if len(token) > MAX_TOKEN_CHARS:
        return token
    return _with(token, {_TAKEN_AT: sequence_number, _AS_OF: as_of})


def kept_as_of(kept: str, as_of: int) -> str:
    """The same vector, up to another snapshot."""
    return _with(kept, {_AS_OF: as_of})


def _with(token: str, said: Mapping[str, int]) -> str:
    if len(token) > _MAX_KEPT_CHARS:
        return token
    try:
        data = json.loads(token)
    except ValueError:
        return token
    return json.dumps({**data, **said}, separators=(",", ":")) if isinstance(data, dict) else token


def taken_at(kept: str) -> int:
    """The sequence number of the snapshot that a kept vector is taken from; 0 where it does not say."""
    return _number(kept, _TAKEN_AT)


def as_of(kept: str) -> int:
    """Up to which snapshot of `main` a kept vector was the newest; 0 where it does not say, `NOWHERE` where it is gone."""
    return _number(kept, _AS_OF)


def _number(kept: str, name: str) -> int:
    try:
        number = json.loads(kept[: _MAX_KEPT_CHARS + 1]).get(name, 0)
    except (ValueError, AttributeError):
        return 0
    return number if isinstance(number, int) else 0


_KEPT = re.compile(r"ingest\..*\.source", re.DOTALL)


def is_kept(name: str) -> bool:
    """Whether a property of this name is one that `property_name` gives."""
    return _KEPT.fullmatch(name) is not None
