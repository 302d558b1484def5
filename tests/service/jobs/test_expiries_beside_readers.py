"""What a registered reader has not read yet does not expire, for as long as the policy says."""

import json

import pytest

from isotherm.contract.readers import ReadPosition, encode_position
from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.jobs import Action
from isotherm.core.units import MINUTE_MS
from support.deleting import turn
from support.lab import Lab, of, started, uuid_of

POLICY = """
tables: "*"
compact: {enabled: false}
expire: {keep_for: 10m, keep_last: 5, at_once: 2, every: 0s, max_reader_lag: 2h}
"""


class Table:
    """A table with a commit for each hour, all of which may go by their age but the last five."""

    def __init__(self, tmp_path):
        self.lab = Lab(tmp_path, policy=POLICY)
        self.table = self.lab.create()
        self.service = started(self.lab)

    def written(self, commits=10):
        for hour in range(commits):
            self.lab.append(self.table, hour)

    def says(self, number, reader="scoring", **more):
        """The reader has read up to the snapshot of this number; the oldest that is there is 0."""
        position = ReadPosition(
            table_uuid=uuid_of(self.table),
            table="shop.orders",
            reader=reader,
            snapshot_id=self.history[number],
            at_ms=self.lab.now_ms(),
        )
        self.lab.readers.append((more.get("key", position.key), encode_position(position)))
        return position

    @property
    def history(self):
        return [one.snapshot_id for one in self.table.refresh().snapshots()]

    def later(self, minutes, turns=6):
        self.lab.ahead_ms += minutes * MINUTE_MS
        turn(self.service, turns)

    @property
    def expiry(self):
        row = self.service.fold.table(uuid_of(self.table))
        return next(one for one in row.of_table if one.action is Action.EXPIRE)


@pytest.fixture
def one(tmp_path):
    found = Table(tmp_path)
    yield found
    found.service.stop()


def test_what_it_has_not_read_stays_until_it_has(one):
    one.written()
    every = one.history
    one.says(2)
    one.later(30)
    assert one.history == every[2:]
    assert "kept for the reader scoring" in one.expiry.why

    one.says(2)  # of those that are left
    one.later(1)

    assert one.history == every[4:]


def test_the_slowest_of_several_counts(one):
    one.written()
    every = one.history
    one.says(4, "fast")
    one.says(2, "slow")
    one.later(30)

    assert one.history == every[2:]
    assert "kept for the reader slow" in one.expiry.why


def test_one_that_says_that_it_reads_no_more_keeps_nothing(one):
    one.written()
    every = one.history
    position = one.says(0)
    one.later(30)
    assert one.history == every

    one.lab.readers.append((position.key, None))
    one.later(1)

    assert one.history == every[5:]


def test_one_that_is_too_far_behind_is_let_go_and_told(one):
    one.written()
    every = one.history
    one.says(0)
    one.later(110)
    assert one.history == every
    assert [what.readers[0].is_kept for what in of(one.lab, seen.TablePlanned) if what.readers][-1]

    one.later(20)

    assert one.history == every[5:]
    told = [what.readers for what in of(one.lab, seen.TablePlanned) if what.readers]
    assert not told[-1][0].is_kept
    assert "nothing is kept for the readers scoring (" in one.expiry.why


def test_while_nobody_knows_who_reads_nothing_expires(one):
    one.written()
    every = one.history
    one.service.reader_topic.is_reachable = False
    one.later(30)
    assert one.history == every
    assert one.expiry.verdict is Verdict.WAITING
    assert "could not be read" in one.expiry.why

    one.service.reader_topic.is_reachable = True
    one.later(1)

    assert one.history == every[5:]


def test_one_that_registers_after_it_was_planned_keeps_what_it_needs(one):
    """The topic is read once more before the request goes out."""
    one.written()
    every = one.history
    sent = one.service.maintainer.start_expiring

    def start_expiring(*args, **more):
        one.says(0)
        return sent(*args, **more)

    one.service.maintainer.start_expiring = start_expiring
    one.later(30)

    assert one.history == every
    assert [job.reason for job in of(one.lab, seen.JobEnded)][:1] == ["stale"]


def test_a_topic_that_was_lost_takes_no_reader_with_it(one):
    """Nor one that comes back with an older disk: the ledger knows them, until they say something newer."""
    one.written()
    every = one.history
    one.says(0)
    one.later(1)
    one.lab.readers.clear()
    one.service.reader_topic.position = None
    one.later(30)
    assert one.history == every

    one.says(9)
    one.later(1)

    assert one.history == every[5:]


def test_what_a_command_beside_it_decides_knows_whether_readers_are_known(one):
    one.written()
    one.service.reader_topic.is_reachable = False
    one.later(30)

    assert "could not be read" in one.service.ledger.why_readers_unknown()
    one.service.reader_topic.is_reachable = True
    one.later(1)
    assert one.service.ledger.why_readers_unknown() is None


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("no key", b"{}", "Field required"),
        ("u/r", b"\xff", "Invalid JSON"),
        ("u/r", b"[1]", "should be an object"),
        ("u/r", b"x" * 20_000, "a record of 20000 bytes"),
        ("u/r", json.dumps({"table_uuid": "u", "table": "t", "reader": "", "snapshot_id": 1, "at_ms": 1}).encode(), "at least 1"),
        ("u/r", json.dumps({"table_uuid": "u", "table": "t", "reader": "a/b", "snapshot_id": 1, "at_ms": 1}).encode(), "pattern"),
        ("u/r", json.dumps({"table_uuid": "u", "table": "t", "reader": "s", "snapshot_id": 1, "at_ms": 1}).encode(), "it speaks of u/s"),
        ("u/r", json.dumps({"table_uuid": "u", "table": "t", "reader": "r", "snapshot_id": 2**63, "at_ms": 1}).encode(), "less than"),
    ],
)  # fmt: skip
def test_what_is_no_reader_is_told_and_keeps_nothing_and_stops_nobody(one, key, value, why):
    one.written()
    every = one.history
    one.lab.readers.append((key, value))
    one.later(30)

    assert one.history == every[5:]
    (told,) = of(one.lab, seen.ReaderRejected)
    assert (told.key, why in told.reason) == (key, True), told


def test_more_readers_than_anybody_counts_stop_expiry_and_say_so(one, monkeypatch):
    monkeypatch.setattr("isotherm.service.topics.readers.MOST_READERS", 3)
    one.written()
    every = one.history
    for number in range(4):
        one.says(9, f"r{number}")
    one.later(30)

    assert one.history == every
    assert "4 readers stand on their topic, more than 3" in one.expiry.why


def test_a_reader_at_a_snapshot_that_is_gone_keeps_nothing_and_is_told(one):
    one.written()
    every = one.history
    position = one.says(0).model_copy(update={"snapshot_id": 17})
    one.lab.readers[-1] = (position.key, encode_position(position))
    one.later(30)

    assert one.history == every[5:]
    assert "nothing is kept for the readers scoring" in one.expiry.why


def test_of_many_records_that_are_none_the_first_are_told_and_how_many_there_are(one):
    one.lab.readers.extend((f"u/r{number}", b"nonsense") for number in range(100))
    one.later(1)

    told = of(one.lab, seen.ReaderRejected)
    assert (len(told), told[-1].reason) == (21, "100 records are none of ours")


def test_whatever_its_key_a_reader_can_be_taken_back(one):
    position = ReadPosition(table_uuid="a/b", table="t", reader="r", snapshot_id=1, at_ms=1)
    one.lab.readers.append((position.key, encode_position(position)))
    one.later(1)
    assert one.service.ledger.position_keys() == {"a/b/r"}

    one.lab.readers.append((position.key, None))
    one.later(1)

    assert one.service.ledger.position_keys() == set()
