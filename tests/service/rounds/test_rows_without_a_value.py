"""Rows without a value have a partition of their own in a table that is partitioned, and it is judged as any other."""

import pyarrow as pa

from isotherm.core.model.decisions import Verdict
from support.lab import Lab, event_of, settle, started, uuid_of

POLICY = 'tables: "*"\ncompact: {min_files: 3}\nexpire: {enabled: false}\n'
WITHOUT_A_TIME = pa.table(
    {
        "id": pa.array([1], pa.int64()),
        "at": pa.array([None], pa.timestamp("us", "UTC")),
        "what": ["x"],
    }
)


def written(tmp_path):
    """A table of hours with five files of rows that have none, and a daemon, sixteen minutes after the last of them."""
    lab = Lab(tmp_path, policy=POLICY)
    table = lab.create()
    for _ in range(5):
        table.refresh().append(WITHOUT_A_TIME)
        lab.announce(event_of(table.refresh()))
    service = started(lab)
    service.step(0)
    lab.ahead_ms += 16 * 60_000
    return lab, table, service


def test_it_waits_until_others_have_gone_by_as_any_partition_without_a_time(tmp_path):
    lab, table, service = written(tmp_path)

    settle(service)
    (only,) = service.fold.partitions(uuid_of(table))
    assert (only.key, only.verdict) == ("{}", Verdict.HOT)
    for _ in range(10):
        lab.append(table, 1)
    settle(service)
    assert [one.state for one in service.ledger.operations() if one.partition == "{}"] == ["done"]
    service.stop()


def test_once_the_table_is_not_partitioned_any_more_time_alone_counts(tmp_path):
    """All that is written then is in that partition, so no commit of the table can go by without it."""
    _, table, service = written(tmp_path)
    with table.refresh().update_spec() as change:
        change.remove_field("at_hour")
    settle(service)

    assert [one.state for one in service.ledger.operations() if one.partition == "{}"] == ["done"]
    service.stop()
