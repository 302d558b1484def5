"""The fold is a cache: it is made again where it cannot be used, and only there."""

import pytest

from isotherm.core.model.tables import Astray
from isotherm.store import Fold
from isotherm.store.database import StoreError
from support.builders import NOW, facts, table_state


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
