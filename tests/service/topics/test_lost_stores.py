"""A store that was lost, or put back as it was before, costs no announcement: what nobody announced still is.

What the ledger accounts for, the fold has in its state. Where one of the two is older than the other, the table tells.
"""

import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest
from pyiceberg.table import snapshots

from isotherm.contract.events import decode
from isotherm.service.topics.catalog_poller import REPUBLISH_AFTER_MS
from support.lab import EAGER, Lab, started, uuid_of

IDLE = EAGER.replace("compact: {min_files: 3}", "compact: {enabled: false}")


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path, policy=IDLE)
    yield lab
    lab.executor.stop()


def turn(service, times=4):
    for _ in range(times):
        service.step(0)


def announced(lab):
    """Which snapshots the daemon itself has announced."""
    events = [
        decode(message.value if hasattr(message, "value") else message) for message in lab.topic.messages
    ]
    return [event.snapshot_id for event in events if event.announced_by]


def end(service):
    """The process is over."""
    service.stop()
    service.fold.close()
    service.ledger.close()


def lose(lab, name):
    for suffix in ("", "-wal", "-shm"):
        (lab.root / "state" / f"{name}{suffix}").unlink(missing_ok=True)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_snapshot_by_a_clock_that_is_behind_is_announced_though_the_fold_is_lost(lab, monkeypatch, version):
    """It came after the first that there is an account of, and has an earlier time."""
    table = lab.create(**{"format-version": version})
    first = lab.append(table, 1, announce=False)
    service = started(lab)
    turn(service)
    end(service)
    behind = SimpleNamespace(time=lambda: first.timestamp_ms / 1000 - 30)
    monkeypatch.setattr(snapshots, "time", behind)
    second = lab.append(table, 2, announce=False)
    monkeypatch.undo()
    lose(lab, "fold.db")
    after = started(lab)
    turn(after)
    lab.ahead_ms += 2 * REPUBLISH_AFTER_MS
    turn(after)

    assert second.timestamp_ms < first.timestamp_ms
    assert announced(lab) == [second.snapshot_id]
    after.stop()


def test_what_was_found_and_not_announced_yet_is_announced_though_an_older_ledger_was_put_back(lab):
    table = lab.create()
    lab.append(table, 1, announce=False)
    service = started(lab)
    turn(service)
    with closing(sqlite3.connect(lab.root / "older.db")) as older:
        service.ledger.db.backup(older)
    second = lab.append(table, 2, announce=False)
    turn(service)
    assert service.fold.table(uuid_of(table)).state.head == second.snapshot_id
    end(service)
    lose(lab, "ledger.db")
    shutil.copy(lab.root / "older.db", lab.root / "state" / "ledger.db")
    after = started(lab)
    turn(after)
    lab.ahead_ms += 2 * REPUBLISH_AFTER_MS
    turn(after)

    assert announced(lab) == [second.snapshot_id]
    after.stop()
