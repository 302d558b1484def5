"""Whatever the key is, and whoever changes what, a mirror has one row for each: written by ingest, read by Spark."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.ingest_lab import Lab
from support.wire import message

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\..*", table: "NS.{table}"}
"""


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    yield lab
    lab.close()


def key(**values: Any) -> bytes:
    """A message key with its schema."""
    fields = [{"field": name, "type": "string"} for name in values]
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": values}).encode()


def change(table: str, keys: dict[str, Any], row: dict[str, Any], **told: Any) -> tuple[bytes, bytes]:
    """A change of a table whose columns are all text."""
    fields = [{"field": name, "type": "string"} for name in row]
    source = {"schema": "public", "db": "shop", "table": table, "ts_ms": 1, "lsn": 1}
    return key(**keys), message(fields, source=source, after=row, **told)


def test_keys_and_names_that_mean_something_to_spark_s_sql_are_only_text(lab: Lab) -> None:
    name = "a ${env:HOME}.`b`"
    texts = ["${env:HOME}", "${spark:spark.master}", "it's \\ ${x}", ""]
    lab.make_topics("texts")
    for lap in ("first", "second"):
        lab.send("texts", *(change("texts", {name: text}, {name: text, "lap": lap}) for text in texts))
        lab.ingest()

    assert sorted((row[name], row["lap"]) for row in lab.rows("texts")) == sorted(
        (text, "second") for text in texts
    )
