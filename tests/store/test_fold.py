"""The fold is a cache: it is made again where it cannot be used, and only there."""

import pytest

from isotherm.core.model.tables import Astray
from isotherm.core.state import Prior
from isotherm.store import Fold
from isotherm.store.database import StoreError
from isotherm.store.fold import journal
from support.builders import NOW, added, change, facts, key, table_state


def test_a_corrupt_fold_is_made_again(tmp_path):
    path = tmp_path / "fold.db"
    path.write_bytes(b"this is no database" * 1000)

    fold, trouble = Fold.open_or_rebuild(path)

    assert "not a database" in trouble
    assert fold.names() == {}
    fold.close()


def test_a_fold_that_cannot_be_opened_now_is_not_thrown_away(tmp_path):
    """Nor one that is locked, or on a full disk, which SQLite calls the same kind of error."""
    path = tmp_path / "fold.db"
    path.mkdir()

    with pytest.raises(StoreError, match="unable to open"):
        Fold.open_or_rebuild(path)

    assert path.is_dir()


def test_a_snapshot_that_metadata_lists_twice_is_kept_once():
    """It ended the daemon, for all tables and at each start."""
    fold, state = Fold(None), table_state()
    twice = Astray(7, 3, NOW)

    fold.save_table(state, facts(), None, (), (twice, twice))

    assert fold.astray(state.table.uuid) == (twice,)


def test_tables_are_found_by_the_name_of_a_property():
    fold, state = Fold(None), table_state()
    fold.save_table(state, facts(properties={"gc.enabled": "false"}), None, (), ())

    assert fold.with_property("gc.enabled") == [state.table.uuid]
    assert fold.with_property("write.data.path") == []


@pytest.mark.parametrize(("on_faith", "kept"), [(0, (7, 8, 9)), (2, (7, 8, 9)), (5, (5, 6, 7, 8, 9))])
def test_of_wide_commits_a_journal_keeps_fewer_but_all_that_nobody_has_confirmed(monkeypatch, on_faith, kept):
    fold, uuid = Fold(None), table_state().table.uuid
    wide = [
        (change(number, number - 1, {key(at): added(1) for at in range(50)}), Prior(table_state(), {}))
        for number in range(1, 10)
    ]
    fold.record(uuid, wide[:1])
    ((one_bytes,),) = fold.db.execute("SELECT bytes FROM journal").fetchall()
    monkeypatch.setattr(journal, "JOURNAL_BYTES", int(3.5 * one_bytes))

    fold.record(uuid, wide[1:], on_faith)

    assert kept == tuple(number for number in range(1, 10) if fold.recorded(uuid, number) is not None)


def test_a_commit_that_is_larger_than_a_journal_is_not_kept(monkeypatch):
    fold, uuid = Fold(None), table_state().table.uuid
    monkeypatch.setattr(journal, "JOURNAL_BYTES", 10)

    fold.record(uuid, [(change(1, None, {key(1): added(1)}), Prior(table_state(), {}))])

    assert fold.recorded(uuid, 1) is None
