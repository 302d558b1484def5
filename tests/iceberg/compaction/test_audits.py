"""Whoever writes beside `main`, to look at it first, can publish it: judged by Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.runtime.clock import now_ms
from support.rewriting import COLUMNS, SOME, bound, commit, fresh, rewritten, rows

pytestmark = pytest.mark.spark

EVEN, ODD = PartitionKey('{"1000":true}'), PartitionKey('{"1000":false}')


@contextmanager
def staging(spark: Any, name: str) -> Iterator[None]:
    spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.wap.enabled'='true')")
    conf = {"spark.wap.id": f"audit of {name}", "spark.sql.sources.partitionOverwriteMode": "dynamic"}
    for key, value in conf.items():
        spark.conf.set(key, value)
    yield
    for key in conf:
        spark.conf.unset(key)


def on_a_branch(spark: Any, name: str) -> str:
    spark.sql(f"ALTER TABLE lake.{name} CREATE BRANCH audit")
    spark.sql(f"INSERT INTO lake.{name}.branch_audit " + SOME.format(100, 120))
    return f"fast_forward('{name}', 'main', 'audit')"


def overwritten(spark: Any, name: str) -> str:
    with staging(spark, name):
        spark.sql(f"INSERT OVERWRITE lake.{name} SELECT * FROM ({SOME.format(100, 120)}) WHERE flag")
    return f"publish_changes('{name}', 'audit of {name}')"


def merged(spark: Any, name: str) -> str:
    with staging(spark, name):
        spark.sql(f"UPDATE lake.{name} SET name = 'x' WHERE id = 3")
    return f"publish_changes('{name}', 'audit of {name}')"


@pytest.mark.parametrize("write", [on_a_branch, overwritten, merged])
def test_what_is_looked_at_first_can_be_published(spark: Any, lake: Any, write: Any) -> None:
    with fresh(spark, f"db.audited_{write.__name__}", COLUMNS, "PARTITIONED BY (flag)") as name:
        for start in (0, 20, 40):
            spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 20))
        table = lake.load_table(name)
        job = bound(table, EVEN)
        rewrite = rewritten(table, job)
        publish = write(spark, name)

        outcome = commit(lake, job, rewrite, now_ms=now_ms())

        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.STAGED)
        spark.sql(f"CALL lake.system.{publish}")
        # From now on nothing waits.
        before, table = rows(spark, name), lake.load_table(name)
        job = bound(table, ODD)
        assert commit(lake, job, rewritten(table, job), now_ms=now_ms()).kind is OutcomeKind.DONE
        assert rows(spark, name) == before
