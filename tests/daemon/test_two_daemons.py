"""Two daemons on one control topic, real processes and a real broker: no job commits twice, or for a table that moved.

What holds is judged from the tables (their snapshots, rows and files) and the ledgers; the logs only say when to look.
Rewrites are stopped in the middle (SIGSTOP to their processes), so that a job is surely running when something happens.
"""

import subprocess
import sys

import pytest
from confluent_kafka import TopicPartition

from isotherm.kafka.control_topic import KafkaEvents
from isotherm.runtime.exit_codes import EXIT_FENCED
from isotherm.store import Fold, Ledger
from support.daemon_group import IDLE, Group, files_of, jobs_in, judge, operations, ready, rows
from support.daemon_process import eventually
from support.lab import EAGER, Lab, counted

pytestmark = pytest.mark.stack


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


@pytest.fixture
def group(lab, kafka):
    group = Group(lab, kafka)
    yield group
    group.end()


@pytest.mark.soak
def test_the_group_divides_the_tables_and_each_is_compacted_once(lab, group):
    group.make_topic(2)
    one, two = group.start("one"), group.start("two")
    eventually(lambda: ready(one) and ready(two))
    tables = [group.table_on(number % 2, 2, number) for number in range(4)]
    for name, table in tables:
        group.write(table, name, 1, 1, 1, 2, 3, 4)
    before = [rows(table) for _, table in tables]
    eventually(lambda: all(jobs_in(table) for _, table in tables))
    eventually(lambda: not any(o.state == "running" for d in (one, two) for o in operations(d).values()))

    judge(lab, [table for _, table in tables], one, two)
    assert before == [rows(table) for _, table in tables]
    assert [len(jobs_in(table)) for _, table in tables] == [1] * 4
    worked = [{o.table.name for o in operations(d).values() if o.state == "done"} for d in (one, two)]
    assert worked[0] | worked[1] == {name for name, _ in tables}
    assert all(worked)
    # Each speaks of its own tables only.
    gauge = 'isotherm_score{table="%s"}'
    eventually(
        lambda: (
            [[d.metric(gauge % name) is not None for d in (one, two)].count(True) for name, _ in tables]
            == [1] * 4
        )
    )

    # One leaves: the other takes all of it, and finishes what is due.
    assert one.stop() == 0
    for name, table in tables:
        group.write(table, name, 2, 2, 2, 5, 6)
    eventually(lambda: all(len(jobs_in(table)) >= 2 for _, table in tables))
    assert two.stop() == 0
    judge(lab, [table for _, table in tables], one, two)
    assert {name for name, _ in tables} == {
        o.table.name for o in operations(two).values() if o.state == "done"
    }


def test_who_was_stopped_beyond_the_poll_interval_commits_nothing(lab, group):
    """Its rewrite is complete and the table unchanged: only the question to the broker can keep it from committing."""
    group.make_topic(1)
    one = group.start("one")
    eventually(lambda: ready(one))
    two = group.start("two", policy=IDLE)
    name, table = group.table_on(0, 1)
    group.write(table, name, 1, 1, 1, 2, 3, 4)
    before = rows(table)
    job_id = one.until("job_started")["job_id"]
    one.pause()
    eventually(lambda: ready(two))
    assert operations(one)[job_id].state == "running"
    one.go_on()
    one.until("job_ended", job_id=job_id)
    one.until("table_moved")

    assert jobs_in(table) == []
    assert before == rows(table)
    assert (operations(one)[job_id].state, operations(one)[job_id].reason) == ("failed", "owner")
    assert not files_of(lab, job_id)
    assert one.metric(f'isotherm_score{{table="{name}"}}') is None

    two.set_policy(EAGER)
    eventually(lambda: jobs_in(table))
    assert one.stop() == two.stop() == 0
    judge(lab, [table], one, two)
    assert [o.state for o in operations(two).values()] == ["done"]
    assert before == rows(table)


def test_a_job_that_is_ready_when_its_daemon_has_not_heard_yet_is_refused_by_the_broker(lab, group):
    """The worst moment for a pause: after the last message was read, right before the commit."""
    group.make_topic(1)
    properties = {
        "bootstrap.servers": group.servers,
        "session.timeout.ms": 6000,
        "max.poll.interval.ms": 6000,
    }
    events = KafkaEvents(properties, group.topic, f"g-{group.topic}", 0)
    eventually(lambda: events.poll(0.1) or events.is_assigned())
    service = lab.service()
    service.events = service.compactions.events = service.compactions.last_look.events = events
    service.owned.events = events
    service.start()
    name, table = group.table_on(0, 1)
    table_uuid = str(table.metadata.table_uuid)
    group.write(table, name, 1, 1, 1, 2, 3, 4)
    eventually(lambda: service.step(0.05) or len(service.compactions))
    other = KafkaEvents(properties, group.topic, f"g-{group.topic}", 0)
    eventually(lambda: other.poll(0.1) or other.owns(table_uuid))

    assert other.check_in() is None
    assert events.owns(table_uuid), "as far as it knows"
    while len(service.compactions):
        service.maintainer.wait(30)
        service.compactions.start_bound()
        service.compactions.finish()
    (operation,) = service.ledger.operations(table_uuid)
    assert (operation.state, operation.reason) == ("failed", "owner")
    assert jobs_in(table) == []
    assert not files_of(lab, operation.job_id)
    other.close()
    service.stop()


def test_a_daemon_that_joins_takes_only_what_moves_and_its_jobs_with_it(lab, group):
    group.make_topic(2)
    one = group.start("one")
    eventually(lambda: ready(one))
    tables = dict(group.table_on(number, 2) for number in (0, 1))
    before = {}
    with group.freezing(one, 2):
        for name, table in tables.items():
            group.write(table, name, 1, 1, 1, 2, 3, 4)
            before[name] = rows(table)
        started = {
            record["table"]: record["job_id"] for record in (one.until("job_started") for _ in range(2))
        }
    two = group.start("two")
    moved = one.until("job_ended")
    # While the group is still at it, the broker lets nobody commit, and a job that asks then is done again.
    eventually(lambda: ready(two))
    group.thaw()
    eventually(lambda: all(jobs_in(table) for table in tables.values()))
    assert one.stop() == two.stop() == 0

    (stayed,) = set(tables) - {moved["table"]}
    assert (moved["outcome"], moved["reason"]) == ("failed", "owner")
    judge(lab, tables.values(), one, two)
    assert jobs_in(tables[stayed]) == [started[stayed]]
    assert [o.table.name for o in operations(two).values()] == [moved["table"]]
    assert before == {name: rows(table) for name, table in tables.items()}


@pytest.mark.soak
def test_who_is_killed_with_a_job_running_is_replaced_and_cleans_up_when_it_is_back(lab, group):
    group.make_topic(1)
    one = group.start("one")
    eventually(lambda: ready(one))
    two = group.start("two")
    name, table = group.table_on(0, 1)
    with group.freezing(one, 1):
        group.write(table, name, 1, 1, 1, 2, 3, 4)
        before = rows(table)
        job_id = one.until("job_started")["job_id"]
    one.process.kill()
    group.thaw()  # and each finds that its daemon is gone
    eventually(lambda: jobs_in(table))
    again = group.start("one")
    again.until("job_ended", job_id=job_id)
    assert again.stop() == two.stop() == 0

    judge(lab, [table], again, two)
    assert job_id not in jobs_in(table)
    assert len(jobs_in(table)) == 1
    assert before == rows(table)


def test_who_is_fenced_ends_and_its_job_with_it(lab, group):
    """Two processes with one `group.instance.id`: the newer one has the place."""
    group.make_topic(1)
    same = {"group.instance.id": "same", "max.poll.interval.ms": 60_000}
    one = group.start("one", **same)
    eventually(lambda: ready(one))
    name, table = group.table_on(0, 1)
    with group.freezing(one, 1):
        group.write(table, name, 1, 1, 1, 2, 3, 4)
        before = rows(table)
        job_id = one.until("job_started")["job_id"]
    two = group.start("two", policy=IDLE, **same)

    assert one.process.wait(60) == EXIT_FENCED
    assert "fenced" in one.until("fenced")["why"]
    assert jobs_in(table) == []
    assert operations(one)[job_id].state == "failed"
    assert not files_of(lab, job_id)
    eventually(lambda: ready(two))
    assert two.stop() == 0
    assert before == rows(table)


def believed(daemon, table):
    fold = Fold(daemon.folder / "state" / "fold.db", read_only=True)
    try:
        return {
            p.key: (dict(p.state.data), dict(p.state.deletes))
            for p in fold.partitions(str(table.metadata.table_uuid))
        }
    finally:
        fold.close()


def is_announced(daemon, table):
    """Whether the daemon has consumed the event of the table's head."""
    ledger = Ledger(daemon.folder / "state" / "ledger.db", read_only=True)
    try:
        head = table.refresh().current_snapshot().snapshot_id
        found = ledger.accounts(str(table.metadata.table_uuid))
        return any(one.snapshot_id == head and one.announced for one in found)
    finally:
        ledger.close()


def test_events_that_were_deleted_unread_are_told_and_healed(lab, group):
    group.make_topic(1)
    one = group.start("one", policy=IDLE)
    name, table = group.table_on(0, 1)
    group.write(table, name, 1, 2)
    eventually(lambda: is_announced(one, table))
    assert one.stop() == 0
    group.write(table, name, 2, 3, 3)
    (deleted,) = group.admin.delete_records([TopicPartition(group.topic, 0, 5)]).values()
    deleted.result(30)
    again = group.start("one", policy=IDLE)
    again.until("events_lost")
    eventually(lambda: believed(again, table) == counted(lab.scan(name)))

    assert again.metric("isotherm_events_lost_total") == 1
    group.write(table, name, 4)
    eventually(lambda: is_announced(again, table))
    assert again.stop() == 0
    assert believed(again, table) == counted(lab.scan(name))


def test_a_control_topic_that_was_made_again_is_read_from_its_beginning(lab, group):
    """The new one holds more than the old one did: an old offset is valid in it, and means another message."""
    group.make_topic(1)
    one = group.start("one", policy=IDLE)
    name, table = group.table_on(0, 1)
    group.write(table, name, 1, 2)
    eventually(lambda: is_announced(one, table))
    one.pause()
    group.admin.delete_topics([group.topic])[group.topic].result(30)
    eventually(lambda: group.topic not in group.admin.list_topics(timeout=10).topics)
    group.make_topic(1)
    other_name, other = group.table_on(0, 1, number=1)
    group.write(other, other_name, 1)
    group.write(table, name, 2, 3, 3)
    one.go_on()
    one.until("events_lost")
    eventually(lambda: is_announced(one, table) and is_announced(one, other))
    eventually(lambda: believed(one, table) == counted(lab.scan(name)))

    assert one.metric("isotherm_events_lost_total") == 1
    assert one.stop() == 0
    ledger = Ledger(one.folder / "state" / "ledger.db", read_only=True)
    assert all(account.announced for account in ledger.accounts(str(table.metadata.table_uuid)))


def isotherm(daemon, *words):
    """A command beside the daemons."""
    done = subprocess.run(
        [sys.executable, "-m", "isotherm.cli", *words, "--config", str(daemon.config)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.soak
def test_a_pause_follows_the_table_to_another_daemon(lab, group):
    group.make_topic(1)
    one = group.start("one")
    name, table = group.table_on(0, 1)
    said = isotherm(one, "pause", name, "--for", "2h", "--why", "load test")
    one.until("hold_changed", kind="pause", is_held=True)
    group.write(table, name, 1, 1, 1, 2, 3, 4)
    two = group.start("two")
    assert one.stop() == 0
    eventually(lambda: ready(two))
    eventually(lambda: two.metric(f'isotherm_table_paused{{table="{name}"}}') == 1)
    explained = isotherm(two, "explain", name)

    assert f"{name} is paused for 2h" in said
    assert "load test" in explained
    assert jobs_in(table) == []
    assert "pause lifted: load test" in isotherm(one, "resume", name)
    eventually(lambda: jobs_in(table))
    assert "nothing is held back" in isotherm(one, "resume", name)
    assert two.stop() == 0
    judge(lab, [table], one, two)
