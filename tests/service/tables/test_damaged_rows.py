"""Rows of the fold that cannot be read: their table alone is made again."""

import sqlite3
from contextlib import closing

import pytest

from isotherm.core import observations as seen
from support.lab import Lab, of, started, uuid_of


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=HOT)


HOT = "tables: '*'\ncold: {after: 1, quiet_for: 1d}\nexpire: {enabled: false}\n"
ROWS = [
    "UPDATE tables SET state = '{}' WHERE uuid = ?",
    "UPDATE tables SET facts = 'x' WHERE uuid = ?",
    "UPDATE tables SET of_table = '[]' WHERE uuid = ?",
    "UPDATE partitions SET state = '{' WHERE uuid = ?",
    "UPDATE journal SET prior = '{' WHERE uuid = ?",
]
NO_TEXT = (
    "UPDATE {0} SET {1} = CAST(substr(CAST({1} AS BLOB), 1, 9) || x'F1' || substr(CAST({1} AS BLOB), 11) AS TEXT) "
    "WHERE uuid = ?"
)
"""Of what is no UTF-8 Python gives nothing: it ended the daemon at each start, for all tables."""
VALUES = (
    "tables state",
    "tables facts",
    "tables of_table",
    "partitions state",
    "journal change",
    "journal prior",
)


def turn(lab, service):
    service.step(0)
    service.step(0)
    lab.ahead_ms += 60_000


CASES = [
    *((sql, "events", True) for sql in ROWS),
    *(
        pytest.param(NO_TEXT.format(*value.split()), "events", True, id=f"{value} is no text")
        for value in VALUES
    ),
    *((sql, "a policy", False) for sql in ROWS if "journal" not in sql),
    (ROWS[-1], "a rollback", False),
]


def happen(lab, what, tables, first):
    """Something for which the daemon reads rows of every table."""
    if what == "a policy":
        (lab.root / "policies" / "all.yaml").write_text(HOT.replace("1d", "2d"))
    for name, table in tables.items():
        if what == "events":
            lab.append(table, 2, 3)
        if what == "a rollback":
            table.manage_snapshots().rollback_to_snapshot(first[name].snapshot_id).commit()


@pytest.mark.parametrize(("sql", "what", "is_restarted"), CASES)
def test_a_row_that_cannot_be_read_costs_its_table_a_scan_and_no_other_anything(lab, sql, what, is_restarted):
    tables = {name: lab.create(name) for name in ("shop.aaa", "shop.bbb", "shop.ccc")}
    service = started(lab)
    turn(lab, service)
    first = {name: lab.append(table, 1, 2) for name, table in tables.items()}
    for table in tables.values():
        lab.append(table, 1, 2)
    turn(lab, service)
    if is_restarted:
        service.stop()
    uuid = uuid_of(tables["shop.bbb"])
    with closing(sqlite3.connect(lab.root / "state" / "fold.db")) as db, db:
        assert db.execute(sql, (uuid,)).rowcount
    lab.seen.clear()
    if is_restarted:
        service = started(lab)
    happen(lab, what, tables, first)
    for _ in range(70):
        turn(lab, service)
        if of(lab, seen.TableRecovered):
            break
    turn(lab, service)

    assert {one.table.name for one in of(lab, seen.TableScanned)} == {"shop.bbb"}
    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.bbb"}
    for name, table in tables.items():
        row = service.fold.table(uuid_of(table))
        assert (row.state.head, row.is_trusted) == (table.refresh().current_snapshot().snapshot_id, True)
        assert files(service.fold.states(uuid_of(table), lab.scan(name))) == files(lab.scan(name))
    service.stop()


def test_a_change_that_cannot_be_read_keeps_nothing_from_being_announced(lab):
    table = lab.create()
    service = started(lab)
    turn(lab, service)
    lab.append(table, 1, 2)
    turn(lab, service)
    found = [lab.append(table, 1, 2, announce=False), lab.append(table, 3, announce=False)]
    service.follower.suspects.add("shop.orders")
    service.round()
    uuid = uuid_of(table)
    assert len(service.ledger.unannounced(uuid, service.now_ms())) == len(found)
    with closing(sqlite3.connect(lab.root / "state" / "fold.db")) as db, db:
        spoiled = "UPDATE journal SET change = 'x' WHERE uuid = ? AND snapshot_id = ?"
        assert db.execute(spoiled, (uuid, found[0].snapshot_id)).rowcount
    for _ in range(70):
        turn(lab, service)

    assert service.ledger.unannounced(uuid, service.now_ms()) == []
    assert [one.name for one in of(lab, seen.TableRecovered)] == ["shop.orders"]
    service.stop()


def files(states):
    return {key: (state.data, state.deletes) for key, state in states.items()}
