"""A state folder of an older version, with work in it: what it holds goes on, and nothing is deleted for the change.

The ledger is one that the older program wrote, as text; its names are put to tables that are there.
"""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from string import Template

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action
from isotherm.store import Fold
from support.lab import EXPIRING, Lab, believed, counted, of, started, uuid_of, wait_for_children

LEDGER = Template((Path(__file__).parents[1] / "support" / "ledger_of_version_4.sql").read_text())
CHANGE = (
    b'{"snapshot_id":17,"parent_id":16,"sequence_number":8,"committed_at_ms":1795353236173,"operation":"append",'
    b'"origin":"foreign","partitions":{"{\\"1000\\":490902}":{"data":{"20":{"files":1,"rows":2,"bytes":1341}},'
    b'"deletes":{},"added":{"files":1,"rows":2,"bytes":1341},"removed":{"files":0,"rows":0,"bytes":0}}},'
    b'"manifests":[],"valid_through_ms":null,"totals":{}}'
)
POLICY = EXPIRING.replace("delete_after: 0s", "delete_after: 1h").replace(", expire.delete_after", "")
HOUR_MS = 3_600_000


class Past:
    """A lake, and the state folder that a daemon of the older version left when it died in an expiry."""

    def __init__(self, root):
        self.lab = lab = Lab(root, policy=POLICY)
        self.orders, self.paused, self.sick = (
            lab.create(f"shop.{name}") for name in ("orders", "paused", "sick")
        )
        for table, hours in (
            (self.orders, (1, 2, 3, 4, 5, 6)),
            (self.paused, (1, 1, 1, 9)),
            (self.sick, (1, 1, 1, 2, 2, 2, 9, 10)),
        ):
            for hour in hours:
                lab.append(table, hour, announce=False)
        metadata = self.orders.refresh().metadata
        old = [one for one in metadata.snapshots if one.snapshot_id != metadata.current_snapshot_id][:4]
        base = self.orders.metadata_location
        self.live = self.orders.inspect.files()["file_path"].to_pylist()[0]
        self.left = f"{self.orders.location()}/data/left.parquet"
        self.marked = old[0].manifest_list
        at(self.left).write_bytes(at(self.live).read_bytes())
        self.orders.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()
        now_ms = lab.now_ms()
        text = LEDGER.substitute(
            orders=uuid_of(self.orders), paused=uuid_of(self.paused), sick=uuid_of(self.sick),
            location=self.orders.location(), left=self.left, live=self.live, marked=self.marked,
            head=metadata.current_snapshot_id, base=base, taken=old[0].snapshot_id,
            now=now_ms, due=now_ms + HOUR_MS, until=now_ms + 48 * HOUR_MS,
        )  # fmt: skip
        folder = root / "state"
        folder.mkdir()
        with closing(sqlite3.connect(folder / "ledger.db")) as ledger, ledger:
            ledger.executescript(text)
            ledger.execute(
                "INSERT INTO changes VALUES (?, 17, ?, ?)",
                (uuid_of(self.orders), now_ms, zlib.compress(CHANGE)),
            )
        with closing(sqlite3.connect(folder / "fold.db")) as fold:
            fold.executescript("CREATE TABLE about (ledger TEXT NOT NULL); PRAGMA user_version=8")

    def turn(self, service, times, minutes=0):
        for _ in range(times):
            self.lab.ahead_ms += minutes * 60_000
            service.step(0)
            wait_for_children(service)

    def rows(self):
        tables = (self.orders, self.paused, self.sick)
        return [sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) for table in tables]


def at(location):
    return Path(location.removeprefix("file://"))


@pytest.fixture
def past(tmp_path):
    past = Past(tmp_path)
    yield past
    past.lab.executor.stop()


def test_what_an_older_version_left_open_goes_on_after_its_grace_and_not_before(past):
    before = past.rows()
    service = started(past.lab)
    uuid = uuid_of(past.orders)
    past.turn(service, 12, minutes=1)

    assert service.ledger.unfinished() == []
    operations = [one for one in service.ledger.operations(uuid) if one.action is not Action.REMOVE_ORPHANS]
    assert {one.job_id[:4]: one.state for one in operations} == {
        "784b": "done",
        "a0f7": "done",
    }
    assert service.ledger.deletions(uuid) == {"waiting": 3}
    assert all(at(one).exists() for one in (past.left, past.live, past.marked))
    past.turn(service, 30, minutes=10)
    assert [at(one).exists() for one in (past.left, past.live, past.marked)] == [False, True, False]
    assert service.ledger.deletions(uuid) == {"deleted": 2, "kept": 1}
    assert before == past.rows()
    assert of(past.lab, seen.LedgerLost) == of(past.lab, seen.TableFailed) == []
    service.stop()


def test_what_it_held_back_stays_so_and_is_told_where_the_topic_does_not_have_it(past):
    service = started(past.lab)
    past.turn(service, 20)
    sick, paused = uuid_of(past.sick), uuid_of(past.paused)
    quarantined = service.ledger.quarantined(sick)
    compacted = [one.partition for one in service.ledger.operations() if one.action is Action.COMPACT]

    assert PartitionKey('{"1000":490897}') in quarantined
    assert quarantined[PartitionKey('{"1000":490897}')].failures == 3
    assert compacted == [PartitionKey('{"1000":490898}')]
    assert service.ledger.paused(paused).why == "load test"
    assert not any(JOB_ID in one.summary.additional_properties for one in past.paused.refresh().snapshots())
    assert {key.partition("/")[2] for key, value in past.lab.held if value} >= {
        "pause",
        'quarantine/{"1000":490897}',
    }
    service.stop()


def test_its_tables_are_scanned_again_and_what_it_learnt_is_read(past):
    fold, why = Fold.open_or_rebuild(past.lab.root / "state" / "fold.db")
    fold.close()
    service = started(past.lab)
    past.turn(service, 4)
    uuid = uuid_of(past.orders)

    assert "has version 8, this program needs" in why
    assert {one.table.name for one in of(past.lab, seen.TableScanned)} == {
        "shop.orders",
        "shop.paused",
        "shop.sick",
    }
    assert service.fold.rules is not None
    assert 17 in [change.snapshot_id for change, _ in service.ledger.changes(uuid)]
    assert service.ledger.learnt(uuid).since_ms == 1795353235511
    assert service.ledger.is_known(uuid, 17) is False
    assert believed(service, uuid) == counted(past.lab.scan())
    service.stop()
