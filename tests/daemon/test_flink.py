"""A Flink job writes upserts and appends while a daemon maintains the tables behind it: neither does the other any harm."""

import itertools
import uuid
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.table.snapshots import Operation

from isotherm.contract.summary import FLINK_CHECKPOINT, FLINK_JOB, JOB_ID
from isotherm.iceberg.values import loaded_table
from support.announcing import ControlTopic
from support.daemon_process import Daemon, eventually
from support.flink import Feed, Flink
from support.lab import START, Lab, event_of

pytestmark = pytest.mark.stack

POLICY = """
tables: "*"
cold: {after: 1, quiet_for: 0s, quiet_commits: 2}
compact: {min_files: 2, max_equality_deletes: 2}
expire: {keep_for: 0s, keep_last: 4, at_once: 2, every: 0s, delete_after: 0s}
override: [expire.keep_for, expire.keep_last, expire.delete_after]
"""
COLUMNS = "id BIGINT NOT NULL, `at` TIMESTAMP_LTZ(6) NOT NULL, what STRING"
MIRRORS = ("shop.orders", "shop.orders_3")
"""Tables of upserts: of format 2, and of format 3."""
NEEDED_WHOLE = "shop.orders_3"
"""Whose history Flink needs back to its first snapshot."""
EVENTS = "shop.events"
"""A table of appends: what is committed twice shows there."""
TABLES = (*MIRRORS, EVENTS)
MAINTAINED = (
    "'flink-maintenance.rewrite.enabled' = 'true', 'flink-maintenance.rewrite.schedule.commit-count' = '2', "
    "'flink-maintenance.rate-limit-seconds' = '1', 'flink-maintenance.lock-check-delay-seconds' = '1'"
)
"""Of a sink that rewrites small files by itself."""

MANY = 60
"""Portions after which it must have done so."""


class Sent:
    """What was sent so far, and the plain fold of it."""

    def __init__(self):
        self.rows, self.events = {}, []
        self.states = {name: {()} for name in TABLES}
        """What each table held after each message."""

    def changes_of(self, hour, part):
        """New rows of an hour, some of them changed or deleted again, and some changes of an hour before."""
        first, lines = 10 * part, []
        for number in range(first, first + 4):
            lines += [self._put(hour, number, "new"), self._put(hour, number, "changed")]
        lines.append(self._delete(hour, first))
        if hour >= 2:
            lines += [self._put(hour - 2, first + 1, "changed late"), self._delete(hour - 2, first + 2)]
        return [*lines, self._put(hour, first + 4, "last")]

    def events_of(self, hour, part):
        return [self.event(hour, number) for number in range(10 * part, 10 * part + 4)]

    def event(self, hour, number):
        self.events.append(row(hour, number, "event"))
        self.states[EVENTS].add(self.now(EVENTS))
        return self.events[-1]

    def now(self, name):
        """The rows of a table, as a reader has them."""
        rows = self.events if name == EVENTS else self.rows.values()
        return tuple(sorted(text_of(one) for one in rows))

    def newest(self, name):
        """The row that came last, after which nothing else did."""
        return self.events[-1] if name == EVENTS else next(reversed(self.rows.values()))

    def _put(self, hour, number, what):
        before, after = self.rows.pop((hour, number), None), row(hour, number, what)
        self.rows[hour, number] = after
        return self._noted({"op": "u" if before else "c", "before": before, "after": after})

    def _delete(self, hour, number):
        return self._noted({"op": "d", "before": self.rows.pop((hour, number)), "after": None})

    def _noted(self, line):
        for name in MIRRORS:
            self.states[name].add(self.now(name))
        return line


def row(hour, number, what):
    at = START + timedelta(hours=hour, minutes=number)
    return {"id": 100 * hour + number, "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "what": what}


def text_of(one):
    return str(one["id"]), one["at"].replace(":00Z", "Z"), one["what"]


class Seen:
    """Every snapshot that was there when we looked, read by Iceberg's own reader."""

    def __init__(self, lab, flink, control):
        self._lab, self._flink, self._control = lab, flink, control
        self.rows, self.snapshots = {}, {}

    def look(self):
        """Read what is new, and announce it where it is not the daemon's: it would wait half a minute for that."""
        for name in TABLES:
            table = self._lab.catalog.load_table(name)
            new = [one for one in table.snapshots() if one.snapshot_id not in self.rows]
            others = [one for one in new if JOB_ID not in one.summary.additional_properties]
            for snapshot in new:
                self._read(name, snapshot)
            self._control.announce(*(event_of(table, one) for one in others))

    def _read(self, name, snapshot):
        try:
            self.rows[snapshot.snapshot_id] = tuple(self._flink.rows(name, snapshot.snapshot_id))
        except Py4JJavaError:
            # It expired, and was swept, while it was read.
            assert self._lab.catalog.load_table(name).snapshot_by_id(snapshot.snapshot_id) is None
        else:
            self.snapshots[snapshot.snapshot_id] = name, snapshot

    def ours(self):
        """Pairs of what was read before a commit of the daemon and after it, and the table."""
        for name, one in self.snapshots.values():
            if JOB_ID in one.summary.additional_properties and one.parent_snapshot_id in self.rows:
                yield name, self.rows[one.parent_snapshot_id], self.rows[one.snapshot_id]


class Job:
    """The program, run as a new job; each portion of its input is an hour."""

    def __init__(self, flink, changes, events, settings=None):
        self.flink = flink
        program = flink.program(settings)
        keyed = COLUMNS + ", PRIMARY KEY (id, `at`) NOT ENFORCED"
        program.source("changes", keyed, changes.folder, "debezium-json")
        program.source("events", COLUMNS, events.folder, "json")
        inserts = [f"INSERT INTO lake.{name} SELECT * FROM changes" for name in MIRRORS]
        program.run(*inserts, f"INSERT INTO lake.{EVENTS} SELECT * FROM events")
        self.program, self.id = program, program.job_id


def place_of(table, job):
    """The last checkpoint that Flink's sink finds for a job: from the head on, from parent to parent; -1 if none."""
    snapshots = {one.snapshot_id: one for one in table.refresh().snapshots()}
    current = table.current_snapshot()
    while current is not None:
        said = current.summary.additional_properties
        if said.get(FLINK_JOB) == job:
            return int(said[FLINK_CHECKPOINT])
        current = snapshots.get(current.parent_snapshot_id)
    return -1


def append(table, one):
    """A commit of another writer, between two runs of the job."""
    at = datetime.fromisoformat(one["at"])
    schema = table.schema().as_arrow()
    table.refresh().append(pa.Table.from_pylist([one | {"at": at}], schema=schema))


def oldest(table):
    return min(table.refresh().snapshots(), key=lambda one: one.sequence_number)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=POLICY)


@pytest.fixture
def flink(lab):
    flink = Flink(lab)
    try:
        flink.start()
        lab.catalog.create_namespace("shop")
        yield flink
    finally:
        flink.stop()


@pytest.fixture
def daemon(lab, kafka, flink):
    del flink  # starts first
    loop = {"poll_tables_every_s": 0.3}
    daemon = Daemon(lab, kafka.bootstrap_servers, f"control-{uuid.uuid4()}", loop=loop)
    yield daemon
    daemon.end()


def test_a_killed_job_goes_on_from_its_checkpoint_after_compactions_and_expiry_and_no_row_is_lost_or_doubled(
    lab, kafka, flink, daemon
):
    upserts = {"write.upsert.enabled": "true"}
    for name, version in zip(MIRRORS, "23", strict=True):
        flink.create(name, key=True, **upserts, **{"format-version": version})
    flink.create(EVENTS, key=False)
    tables = {name: lab.catalog.load_table(name) for name in TABLES}
    changes, events = Feed(lab.root / "changes"), Feed(lab.root / "events")
    sent, seen = Sent(), Seen(lab, flink, ControlTopic(kafka.bootstrap_servers, daemon.topic))

    def arrived(job, name):
        assert (job.program.status, flink.complaints()) == ("RUNNING", [])
        return text_of(sent.newest(name)) in flink.rows(name)

    def send(job, hours):
        for hour, part in itertools.product(hours, range(2)):
            changes.put(sent.changes_of(hour, part))
            events.put(sent.events_of(hour, part))
            for name in TABLES:
                eventually(partial(arrived, job, name))
                assert flink.rows(name) == list(sent.now(name))
            seen.look()

    first = Job(flink, changes, events)
    send(first, range(4))
    flink.kill()
    flink.start()

    # The newest that any sink has committed: what it has kept of that must not be committed once more.
    checkpoint = max(place_of(table, first.id) for table in tables.values())
    kept = place_of(tables[EVENTS], first.id)
    for number in range(10):
        append(tables[EVENTS], sent.event(4, 30 + number))
    seen.look()
    eventually(lambda: FLINK_JOB in oldest(tables[EVENTS]).summary.additional_properties)
    eventually(lambda: len(tables["shop.orders"].refresh().snapshots()) < 8)
    assert place_of(tables[EVENTS], first.id) == kept

    state = f"file://{flink.folder}/checkpoints/{first.id}/chk-{checkpoint}"
    second = Job(flink, changes, events, {"execution.state-recovery.path": state})
    send(second, range(4, 7))
    ended = [one for one in daemon.lines if one["event"] == "job_ended" and one["outcome"] == "done"]
    assert daemon.stop() == 0
    seen.look()

    for name in TABLES:
        assert flink.rows(name) == list(sent.now(name))
        done = {one["action"] for one in ended if one["table"] == name}
        assert "compact" in done
        assert ("expire" in done) == (name != NEEDED_WHOLE)
    for name, before, after in seen.ours():
        assert before == after, name
    assert {name for name, _, _ in seen.ours()} == set(TABLES)
    for snapshot_id, rows in seen.rows.items():
        assert rows in sent.states[seen.snapshots[snapshot_id][0]]
    assert not [
        one for one in daemon.lines if one["event"] in {"halted", "table_failed"} or one.get("traceback")
    ]


def test_flinks_own_table_maintenance_is_known_as_another_rewriter_by_name(lab, flink):
    flink.create(EVENTS, key=False)
    events, sent = Feed(lab.root / "events"), Sent()
    program = flink.program({"table.exec.iceberg.use-v2-sink": "true"})
    program.source("events", COLUMNS, events.folder, "json")
    program.run(f"INSERT INTO lake.{EVENTS} /*+ OPTIONS({MAINTAINED}) */ SELECT * FROM events")
    table = lab.catalog.load_table(EVENTS)

    def is_rewritten():
        assert program.status == "RUNNING"
        return Operation.REPLACE in {one.summary.operation for one in table.refresh().snapshots()}

    # Its trigger looks when something was committed, and drops what comes while it is at work: it may need more.
    for part in range(MANY):
        events.put(sent.events_of(1, part))
        eventually(lambda: text_of(sent.newest(EVENTS)) in flink.rows(EVENTS))
        if is_rewritten():
            break
    else:
        eventually(is_rewritten)

    facts = loaded_table(table, EVENTS).facts
    assert facts.rewritten_by == "Flink"
    assert flink.rows(EVENTS) == list(sent.now(EVENTS))
    assert flink.rows(EVENTS, facts.rewritten_in) in [sorted(rows) for rows in sent.states[EVENTS]]
