"""Who else rewrites a table's data files, as far as the snapshots in its metadata tell."""

import re
from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from isotherm.contract.summary import JOB_ID
from isotherm.iceberg.snapshots import summary_of

ENGINES = {"flink": "Flink", "spark": "Spark"}
"""What engines say of themselves as `engine-name`: Iceberg's `FlinkEnvironmentContext` and Spark's `SparkCatalog` set it."""
MOST_SAID = 40
"""Characters of another engine's name."""


def rewrite_of_others(metadata: TableMetadata) -> Snapshot | None:
    """The newest snapshot by which somebody else has put data files in the place of others, or None if there is none."""
    for snapshot in reversed(metadata.snapshots):
        said = summary_of(snapshot)
        if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE or JOB_ID in said:
            continue
        if any(said.get(name, "0") != "0" for name in ("added-data-files", "deleted-data-files")):
            return snapshot
    return None


def rewriter_of(said: Mapping[str, str]) -> str:
    """Who made a rewrite with this summary, by name; empty where the summary does not tell.

    - Amoro writes `snapshot.producer=OPTIMIZE` (its `SnapshotSummary` and `UnKeyedTableCommit`). It is asked first, because
      its optimizers run in Flink and Spark.
    - Trino writes `trino_query_id` with each commit (`IcebergUtil.commit`), OPTIMIZE included.
    - Flink's table maintenance and Spark's `rewrite_data_files` name their engine.

    S3 Tables and the optimizers of Glue are not told apart: nothing public says what they write.
    """
    if said.get("snapshot.producer") == "OPTIMIZE":
        return "Amoro"
    if "trino_query_id" in said:
        return "Trino"
    engine = said.get("engine-name", "")
    # It is another's word, and becomes part of a sentence.
    return ENGINES.get(engine, engine if re.fullmatch(rf"[\w .-]{{1,{MOST_SAID}}}", engine, re.ASCII) else "")
