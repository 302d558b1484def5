"""A ledger outlives the program that wrote it: an older one is brought up, a newer one is refused, a crash leaves one."""

import sqlite3

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.deletion import Cause, Mark, Seen
from isotherm.core.model.holds import HoldKind
from isotherm.store import Fold, Ledger
from isotherm.store.database import StoreError, connect
from isotherm.store.ledger.schema import VERSIONS

VERSION_1 = """
CREATE TABLE operations (
    job_id TEXT PRIMARY KEY, uuid TEXT NOT NULL, name TEXT NOT NULL, action TEXT NOT NULL, partition TEXT,
    state TEXT NOT NULL, started_at_ms INTEGER NOT NULL, value TEXT NOT NULL, job TEXT
);
CREATE INDEX operations_table ON operations (uuid, started_at_ms);
CREATE INDEX operations_state ON operations (state);
CREATE TABLE deletions (
    uuid TEXT NOT NULL, path TEXT NOT NULL, job_id TEXT NOT NULL, state TEXT NOT NULL,
    marked_at_ms INTEGER NOT NULL, due_at_ms INTEGER NOT NULL, ended_at_ms INTEGER, PRIMARY KEY (uuid, path)
) WITHOUT ROWID;
CREATE INDEX deletions_due ON deletions (state, due_at_ms);
CREATE TABLE expired (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, job_id TEXT NOT NULL, PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE TABLE accounts (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, sequence_number INTEGER NOT NULL, origin TEXT NOT NULL,
    committed_at_ms INTEGER NOT NULL, received_at_ms INTEGER NOT NULL, decided_at_ms INTEGER, announced INTEGER NOT NULL,
    PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE TABLE halts (uuid TEXT PRIMARY KEY, reason TEXT NOT NULL, why TEXT NOT NULL, at_ms INTEGER NOT NULL);
CREATE TABLE quarantine (
    uuid TEXT NOT NULL, partition TEXT NOT NULL, until_ms INTEGER NOT NULL, failures INTEGER NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (uuid, partition)
) WITHOUT ROWID;
PRAGMA user_version=1;
INSERT INTO halts VALUES ('t', 'mismatch', 'rows "7" of 8', 5);
INSERT INTO quarantine VALUES ('t', '{"1000":7}', 900, 3, 'missing_file: gone');
INSERT INTO deletions VALUES ('t', 's3://lake/a', 'j', 'waiting', 1, 2, NULL);
INSERT INTO accounts VALUES ('t', 17, 1, 'ingest', 1, 2, 3, 1);
"""


@pytest.fixture
def old(tmp_path):
    """The ledger of the first version, as its program wrote it."""
    path = tmp_path / "ledger.db"
    database = sqlite3.connect(path)
    database.executescript(VERSION_1)
    database.close()
    return path


def test_a_ledger_of_the_first_version_is_brought_up_with_all_that_it_holds(old):
    ledger = Ledger(old)

    assert ledger.halted("t") == 'mismatch: rows "7" of 8'
    quarantine = ledger.quarantined("t")[PartitionKey('{"1000":7}')]
    assert (quarantine.until_ms, quarantine.failures, quarantine.why) == (900, 3, "missing_file: gone")
    assert ledger.tables_to_sweep(10) == ["t"]
    assert ledger.due_deletions("t", 10, 10) == [Mark("s3://lake/a", "j", Cause.EXPIRED, None)]
    assert ledger.is_known("t", 17)
    assert not ledger.is_new
    assert {key for key, _ in ledger.untold()} == {"t/halt", 't/quarantine/{"1000":7}'}
    assert {hold.key: hold.kind for hold in ledger.holds()} == {
        "t/halt": HoldKind.HALT,
        't/quarantine/{"1000":7}': HoldKind.QUARANTINE,
    }
    # What holds the whole table, and of the waits that of the partition that is asked for.
    assert [one.kind for one in ledger.holds_of("t", ())] == [HoldKind.HALT]
    assert len(ledger.holds_of("t", [PartitionKey('{"1000":7}')])) == 2
    ledger.close()
    assert Ledger(old).halted("t")


@pytest.mark.parametrize("damaged", ["{", "5", "[]"])
def test_a_row_that_cannot_be_read_keeps_no_ledger_from_being_brought_up(old, damaged):
    with sqlite3.connect(old) as database:
        row = ("j", "t", "shop.t", "expire", None, "done", 1, damaged, None)
        database.execute(f"INSERT INTO operations VALUES ({', '.join('?' * len(row))})", row)
    ledger = Ledger(old)

    assert ledger.has_job("j")
    assert ledger.halted("t")
    ledger.close()


def test_a_ledger_without_a_quarantine_has_an_empty_one_and_keeps_what_waits(tmp_path):
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as database:
        for number, sql in enumerate(VERSIONS[:13], 1):
            database.executescript(f"{sql}; PRAGMA user_version={number}")
        database.execute(
            "INSERT INTO deletions (uuid, path, job_id, state, marked_at_ms, due_at_ms, cause, seen_through, seen_snapshot) "
            "VALUES ('t', 's3://lake/t/data/a', 'j', 'waiting', 1, 2, 'orphan', 5, 7)"
        )
    database.close()
    ledger = Ledger(path)

    assert ledger.quarantines() == {}
    assert ledger.due_deletions("t", 10, 10) == [Mark("s3://lake/t/data/a", "j", Cause.ORPHAN, Seen(7, 5))]
    ledger.moved("t", {"s3://lake/t/data/a": ("s3://lake/t/q/a", 9)}, 3, 8)
    assert ledger.quarantines() == {"t": (1, 9)}
    assert ledger.due_deletions("t", 10, 10) == [Mark("s3://lake/t/q/a", "j", Cause.QUARANTINED, Seen(7, 5))]


def test_a_ledger_of_the_version_before_promises_what_is_in_quarantine_for_as_long_as_it_said(tmp_path):
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as database:
        for number, sql in enumerate(VERSIONS[:14], 1):
            database.executescript(f"{sql}; PRAGMA user_version={number}")
        database.executemany(
            "INSERT INTO deletions (uuid, path, job_id, state, marked_at_ms, due_at_ms, cause, size_bytes) "
            "VALUES ('t', ?, 'j', 'waiting', 100, 500, ?, 9)",
            [("q/a", "quarantined"), ("data/b", "orphan")],
        )
    database.close()
    ledger = Ledger(path)

    assert [(one.place, one.until_ms) for one in ledger.files_in_quarantine("t")] == [("q/a", 500)]
    ledger.look_soon("t", ["q/a"], 200)
    assert ledger.not_over("t", ["q/a", "data/b"], 499, 1) == {"q/a"}
    assert ledger.files_in_quarantine("t")[0].until_ms == 500


def test_it_has_then_what_a_new_one_has(old, tmp_path):
    def schema(path):
        Ledger(path).close()
        return sorted(sqlite3.connect(path).execute("SELECT type, name, sql FROM sqlite_master").fetchall())

    assert schema(old) == schema(tmp_path / "new.db")


def test_a_ledger_of_a_newer_version_is_refused_in_words(tmp_path):
    path = tmp_path / "ledger.db"
    sqlite3.connect(path).execute("PRAGMA user_version=99")

    with pytest.raises(StoreError, match=r"has version 99, this program knows \d+: a newer one wrote it"):
        Ledger(path)


def test_a_command_beside_an_older_ledger_says_who_brings_it_up(old):
    with pytest.raises(StoreError, match="the daemon brings it up"):
        Ledger(old, read_only=True)


def test_a_step_that_breaks_off_leaves_the_version_before(tmp_path):
    path = tmp_path / "store.db"
    connect(path, ("CREATE TABLE a (x)",)).close()
    broken = "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)"
    with pytest.raises(StoreError, match="nowhere"):
        connect(path, ("CREATE TABLE a (x)", broken))
    database = connect(path, ("CREATE TABLE a (x)", "CREATE TABLE b (x)"))

    assert database.execute("PRAGMA user_version").fetchone() == (2,)
    assert database.execute("SELECT COUNT(*) FROM b").fetchone() == (0,)


def test_a_fold_of_another_version_is_built_from_the_beginning(tmp_path):
    path = tmp_path / "fold.db"
    Fold(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version=1")
    database.close()
    fold, why = Fold.open_or_rebuild(path)

    assert "has version 1" in why
    assert fold.names() == {}
