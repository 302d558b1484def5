"""A write that did not reach the disk: what is damaged is found at the next start, and mended where that is possible."""

import re
import sqlite3
from contextlib import closing

import pytest

from isotherm.store import Fold, Ledger
from isotherm.store.damage import have_looked_through, open_stores
from isotherm.store.database import DamagedError, StoreError, StoreTrouble, is_damage
from isotherm.store.ledger import Account
from isotherm.store.ledger.schema import VALUES
from support.builders import NOW, facts, table_state

UUID = table_state().table.uuid


@pytest.fixture
def folder(tmp_path):
    """A state folder with a table and its accounts."""
    stores = open_stores(tmp_path, NOW)
    stores.fold.save_table(table_state(), facts(), None, ())
    account(stores.ledger, 1)
    close(stores)
    return tmp_path


def close(stores):
    stores.fold.close()
    stores.ledger.close()


def account(ledger, snapshot_id):
    ledger.account(UUID, [Account(snapshot_id, snapshot_id, "found", NOW, NOW + snapshot_id, None, False)])


def page_of(path, name):
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    return (root - 1) * size, size


def page(path, name):
    begin, size = page_of(path, name)
    return path.read_bytes()[begin : begin + size]


def put_back(path, name, old):
    with path.open("r+b") as file:
        file.seek(page_of(path, name)[0])
        file.write(old)


def lose_a_write(path, name, write):
    """Write, as if one page of the file had not reached the disk."""
    old = page(path, name)
    write()
    put_back(path, name, old)


def touch_the_table(folder):
    with closing(Fold(folder / "fold.db")) as fold:
        fold.looked_at(UUID)


def account_for_more(folder):
    with closing(Ledger(folder / "ledger.db")) as ledger:
        account(ledger, 2)


def announce_all(ledger):
    for snapshot_id in (1, 2):
        ledger.announced(UUID, snapshot_id)


def test_a_fold_whose_index_did_not_reach_the_disk_is_made_again_at_the_start_after(folder):
    """It ended the daemon at each start, for all tables: a quick look does not compare indexes with tables."""
    lose_a_write(folder / "fold.db", "tables_agenda", lambda: touch_the_table(folder))
    stores = open_stores(folder, NOW)
    assert stores.rebuilt is None
    with pytest.raises(StoreTrouble) as trouble:
        stores.fold.distrust(UUID)
    assert is_damage(trouble.value)
    have_looked_through(folder)
    close(stores)

    stores = open_stores(folder, NOW)

    assert "tables_agenda" in stores.rebuilt
    assert "fold.db" in stores.rebuilt
    assert (stores.mended, stores.ledger.deletions_held()) == (None, None)
    stores.fold.save_table(table_state(), facts(), None, ())
    close(stores)
    stores = open_stores(folder, NOW)
    assert stores.fold.names() == {UUID: table_state().table.name}
    close(stores)


def test_a_ledger_whose_index_did_not_reach_the_disk_has_it_made_again_and_deletes_nothing(folder):
    """Perhaps the table is the older one of the two."""
    lose_a_write(folder / "ledger.db", "accounts_open", lambda: account_for_more(folder))
    have_looked_through(folder)

    stores = open_stores(folder, NOW)

    assert stores.rebuilt is None
    assert "ledger.db" in stores.mended
    assert "isotherm resume" in stores.ledger.deletions_held()
    assert [key for key, _ in stores.ledger.untold()] == [f"{stores.ledger.id}/ledger"]
    announce_all(stores.ledger)
    assert stores.ledger.unannounced(UUID, NOW + 10) == []
    close(stores)


def test_a_ledger_whose_rows_are_damaged_waits_for_a_person_who_is_told_which_file_and_what_to_do(folder):
    garbage = b"\xff" * len(page(folder / "ledger.db", "accounts"))
    put_back(folder / "ledger.db", "accounts", garbage)
    before = (folder / "fold.db").stat().st_ino

    for _ in range(2):
        with pytest.raises(DamagedError, match=r"ledger\.db.*put back a backup of it") as error:
            open_stores(folder, NOW)
        assert not error.value.may_pass
        have_looked_through(folder)
    assert (folder / "fold.db").stat().st_ino == before


SPOIL = "UPDATE {0} SET {1} = CAST(substr(CAST({1} AS BLOB), 1, 5) || x'F1' AS TEXT)"


def spoil(folder, file, table, column):
    """Damage a text so that it is no UTF-8, of which SQLite itself says nothing."""
    with closing(sqlite3.connect(folder / file)) as db, db:
        assert db.execute(SPOIL.format(table, column)).rowcount
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_fold_with_a_name_that_is_no_text_is_made_again_at_the_start_after(folder):
    spoil(folder, "fold.db", "tables", "name")
    stores = open_stores(folder, NOW)
    with pytest.raises(StoreTrouble, match="UTF-8") as trouble:
        stores.fold.names()
    assert is_damage(trouble.value)
    have_looked_through(folder)
    close(stores)

    stores = open_stores(folder, NOW)

    assert re.search(r"fold\.db is corrupt: a row of tables: .*'name'", stores.rebuilt)
    assert (stores.mended, stores.fold.names()) == (None, {})
    close(stores)


@pytest.mark.parametrize(
    ("table", "column"), [("accounts", "uuid"), ("places", "location"), ("facts", "value")]
)
def test_a_ledger_with_a_key_that_is_no_text_waits_for_a_person_who_is_told_the_row(folder, table, column):
    """Taken for another one, it would be no proof any more that a file is needed."""
    with closing(Ledger(folder / "ledger.db")) as ledger:
        ledger.place(UUID, "s3://lake/shop/orders")
    spoil(folder, "ledger.db", table, column)
    have_looked_through(folder)

    with pytest.raises(
        DamagedError, match=rf"ledger\.db.* a row of {table}: .*'{column}'.*put back"
    ) as error:
        open_stores(folder, NOW)

    assert not error.value.may_pass


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_value_that_is_no_text_is_the_trouble_of_its_row_alone(folder, name):
    table, column = name.split(".")
    with closing(Ledger(folder / "ledger.db")) as ledger:
        fill(ledger, table)
    spoil(folder, "ledger.db", table, column)
    have_looked_through(folder)

    stores = open_stores(folder, NOW)

    assert (stores.rebuilt, stores.mended) == (None, None)
    close(stores)


def fill(ledger, table):
    """A row with something in each of its columns."""
    columns = [row[1] for row in ledger.db.execute(f"PRAGMA table_info({table})")]
    values = ", ".join("'12345678'" for _ in columns)
    ledger.db.execute(f"INSERT INTO {table} VALUES ({values})")


def test_stores_that_were_looked_through_and_are_sound_stay_as_they_are(folder):
    have_looked_through(folder)

    stores = open_stores(folder, NOW)

    assert (stores.rebuilt, stores.mended, stores.ledger.deletions_held()) == (None, None, None)
    assert stores.fold.names() == {UUID: table_state().table.name}
    close(stores)


def test_a_ledger_that_only_cannot_be_opened_or_is_a_newer_one_is_no_damaged_one(folder):
    with closing(sqlite3.connect(folder / "ledger.db")) as db:
        db.execute("PRAGMA user_version=99")
    have_looked_through(folder)

    with pytest.raises(StoreError, match="a newer one wrote it") as error:
        open_stores(folder, NOW)

    assert not isinstance(error.value, DamagedError)


def test_damage_is_known_whatever_came_after_it(tmp_path):
    (tmp_path / "some.db").write_bytes(b"x" * 5000)
    try:
        try:
            sqlite3.connect(tmp_path / "some.db").execute("SELECT * FROM sqlite_master")
        finally:
            raise RuntimeError("closing")
    except RuntimeError as err:
        assert is_damage(err)  # noqa: PT017 (of interest is what it came after)
    assert not is_damage(sqlite3.OperationalError("database or disk is full"))
