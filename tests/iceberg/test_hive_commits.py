"""On a Hive metastore our commits overwrite nobody's: not when their lock has run out, nor where writers take none.

The writer is PyIceberg as it is, on a client of its own.
"""

import pytest
from hive_metastore.ttypes import EnvironmentContext, Table, UnlockRequest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TTransportBase, TTransportException

from isotherm.clients.hive import Committing
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.catalog import connect
from isotherm.iceberg.expiry import ATTEMPTS, expire, read
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import CatalogConfig
from support.expiring import ids
from support.metastore import Metastore, properties_of
from support.rewriting import commit
from support.two_partitions import NAME, append, contents, ready

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", IntegerType(), required=False),
    NestedField(3, "text", StringType(), required=False),
)
PARTS = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


class Lake:
    """A table on a metastore, our catalog of it, and a writer."""

    def __init__(self, metastore, properties, folder):
        self.metastore = metastore
        self.ours = connect(CatalogConfig(properties=properties))
        self.writers = load_catalog("theirs", **properties)
        self.writers.create_namespace("db", {"location": f"file://{folder}/db"})
        table = self.writers.create_table(NAME, SCHEMA, partition_spec=PARTS)
        for start in range(0, 40, 10):
            append(table, 1, start)

    def write_during_our_commits(self, part, times):
        """Have the writer commit when one of ours has read the table, and has not yet written a metadata.json."""
        numbers = iter(range(times))

        def while_reading(_):
            if not self.metastore.locks or next(numbers, None) is None:
                return
            if not self.metastore.are_ignored:
                self.metastore.run_out()
            self.metastore.while_reading = lambda _: None
            append(self.writers.load_table(NAME), part)
            self.metastore.while_reading = while_reading

        self.metastore.while_reading = while_reading

    def expire(self):
        """Have all snapshots but the newest of now expired."""
        table = self.ours.load_table(NAME)
        reading = read(table, ids(table)[:-1], now_ms())
        uuid = str(table.metadata.table_uuid)
        refused = lambda _: None  # noqa: E731 (nothing is against it)
        return expire(self.ours, NAME, uuid, reading, "job", refused, now_ms(), lambda _: None).outcome

    def snapshots(self):
        return ids(self.writers.load_table(NAME))

    def is_whole(self, appends):
        """Whether the rows of so many appends are there, each once, for the writer."""
        rows = [row["id"] for row in contents(self.writers)]
        return len(rows) == len(set(rows)) == 10 * appends


@pytest.fixture(params=[True, False], ids=["writers without locks", "a lock that ran out"])
def lake(request, tmp_path):
    """Where writers take no locks, the metastore compares; where locks run out, it is too old for that."""
    metastore = Metastore(compares=request.param)
    metastore.are_ignored = request.param
    with properties_of(metastore, tmp_path) as properties:
        yield Lake(metastore, properties, tmp_path)


@pytest.mark.parametrize("times", [1, 3])
def test_a_compaction_overwrites_no_commit_that_came_meanwhile_on_hive(lake, times):
    job, rewrite = ready(lake.ours)
    lake.write_during_our_commits(part=2, times=times)
    outcome = commit(lake.ours, job, rewrite)

    assert (OutcomeKind.DONE, "committed") == (outcome.kind, outcome.reason)
    assert lake.is_whole(appends=4 + times)
    assert len(lake.snapshots()) == 4 + times + 1


def test_a_compaction_gives_way_to_a_commit_in_its_partition_on_hive(lake):
    job, rewrite = ready(lake.ours)
    lake.write_during_our_commits(part=1, times=1)
    outcome = commit(lake.ours, job, rewrite)

    assert (OutcomeKind.FAILED, "conflict") == (outcome.kind, outcome.reason)
    assert lake.is_whole(appends=5)
    assert len(lake.snapshots()) == 5


def test_an_expiry_overwrites_no_commit_that_came_meanwhile_on_hive(lake):
    before = lake.snapshots()
    lake.write_during_our_commits(part=1, times=2)
    outcome = lake.expire()

    assert OutcomeKind.DONE is outcome.kind, outcome
    assert lake.is_whole(appends=6)
    assert lake.snapshots()[0] == before[-1]
    assert len(lake.snapshots()) == 3


def test_an_expiry_that_loses_every_race_on_hive_has_failed_and_changed_nothing(lake):
    before = lake.snapshots()
    lake.write_during_our_commits(part=1, times=ATTEMPTS)
    outcome = lake.expire()

    assert (OutcomeKind.FAILED, "conflict") == (outcome.kind, outcome.reason)
    assert lake.is_whole(appends=4 + ATTEMPTS)
    assert lake.snapshots()[:4] == before


def test_a_swap_whose_answer_is_lost_has_landed_once_on_hive(lake):
    job, rewrite = ready(lake.ours)
    lake.metastore.lost = [True]
    outcome = commit(lake.ours, job, rewrite)
    lake.metastore.run_out()
    lake.metastore.lost = [True]
    expired = lake.expire()

    assert [OutcomeKind.DONE, OutcomeKind.DONE] == [outcome.kind, expired.kind]
    assert lake.is_whole(appends=4)
    assert lake.snapshots() == [outcome.snapshot_id]


def test_a_swap_of_which_nothing_is_heard_is_unknown_on_hive(lake):
    before = lake.snapshots()
    job, rewrite = ready(lake.ours)
    lake.metastore.lost = [False] * 100
    outcome = commit(lake.ours, job, rewrite)
    lake.metastore.run_out()
    expired = lake.expire()

    assert [OutcomeKind.UNKNOWN, OutcomeKind.UNKNOWN] == [outcome.kind, expired.kind]
    assert lake.is_whole(appends=4)
    assert lake.snapshots() == before


class Broken(TTransportBase):
    """A connection that breaks within what is sent on it."""

    def __init__(self):
        self.sent, self.is_closed = 0, False

    def write(self, _):
        if self.is_closed:
            raise TTransportException(TTransportException.NOT_OPEN)
        self.sent += 1

    def flush(self):
        raise TTransportException(message="broken")

    def close(self):
        self.is_closed = True


def test_nothing_follows_a_swap_that_may_have_gone_out_in_part():
    connection = Broken()
    client = Committing(TBinaryProtocol(connection))
    with pytest.raises(TTransportException, match="broken"):
        client.alter_table_with_environment_context("db", "t", Table(), EnvironmentContext({}))
    sent = connection.sent
    client.unlock(UnlockRequest(lockid=1))

    assert sent > 0
    assert connection.sent == sent
