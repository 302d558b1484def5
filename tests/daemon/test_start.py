"""Before the loop turns for the first time."""

import errno
import sqlite3
import threading

import pytest

from isotherm.daemon import code_of_bad_state, end_with, ending_of, while_alive
from isotherm.runtime.config import CatalogConfig, IsothermConfig, KafkaConfig, StateConfig
from isotherm.runtime.strict_model import ConfigError
from isotherm.service.ports import Fenced
from isotherm.store import Ledger
from isotherm.store.damage import MARK
from isotherm.store.database import StoreError


class Ticks:
    """Health that counts how often it was told that the process is alive."""

    def __init__(self):
        self.told = threading.Semaphore(0)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "ticked_at_s":
            self.told.release()


def test_the_process_counts_as_alive_while_its_stores_are_opened():
    health = Ticks()

    def opening():
        return all(health.told.acquire(timeout=30) for _ in range(3))

    assert while_alive(health, opening, every_s=0.001)


def test_what_goes_wrong_while_they_are_opened_is_raised():
    def broken():
        raise OSError("no such disk")

    with pytest.raises(OSError, match="no such disk"):
        while_alive(Ticks(), broken)


@pytest.mark.parametrize(
    ("error", "event", "code"),
    [
        (Fenced("another has our place"), "fenced", 69),
        (sqlite3.OperationalError("database or disk is full"), "bad_state", 1),
        (ConfigError("kafka.properties: no such property"), "bad_config", 78),
        (RuntimeError("a mistake of ours"), "crashed", 70),
    ],
)
def test_each_end_has_a_name_in_the_log_and_a_code(error, event, code):
    assert ending_of(error) == (event, code)


def sqlite_says(path):
    """What SQLite says of a file that is none of its own."""
    path.write_bytes(b"x" * 5000)
    with pytest.raises(sqlite3.DatabaseError) as error:
        sqlite3.connect(path).execute("SELECT * FROM sqlite_master")
    return error.value


def test_where_sqlite_says_that_a_store_is_damaged_the_next_start_looks_through_both(tmp_path):
    config = IsothermConfig(
        catalog=CatalogConfig(properties={}),
        kafka=KafkaConfig(properties={"bootstrap.servers": "unused"}),
        state=StateConfig(path=tmp_path),
        policies=tmp_path,
    )

    assert end_with(sqlite3.OperationalError("database or disk is full"), config, None) == 1
    assert not (tmp_path / MARK).exists()
    assert end_with(sqlite_says(tmp_path / "fold.db"), config, None) == 1
    assert (tmp_path / MARK).exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 1),
        (OSError(errno.EIO, "Input/output error"), 1),
        (OSError(errno.EACCES, "Permission denied"), 78),
        (OSError(errno.EROFS, "Read-only file system"), 78),
        (OSError(errno.ENOTDIR, "Not a directory"), 78),
        (StoreError("ledger.db has version 9, this program knows 8: a newer one wrote it"), 78),
    ],
)
def test_a_start_is_tried_again_where_what_keeps_the_state_from_being_used_may_pass(error, code):
    assert code_of_bad_state(error) == code


@pytest.mark.parametrize("trouble", ["database is locked", "database or disk is full"])
def test_so_it_is_where_a_store_says_that(trouble):
    error = StoreError(trouble)
    error.__cause__ = sqlite3.OperationalError(trouble)

    assert code_of_bad_state(error) == 1


def test_a_store_that_is_not_the_daemons_to_open_waits_for_a_person(tmp_path):
    """As after root has put back a copy: to try again every five seconds mends nothing."""
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(StoreError, match="unable to open") as error:
        Ledger(tmp_path / "ledger.db")

    assert code_of_bad_state(error.value) == 78
