"""Stores with a row, or a page, that cannot be read: each command says so in a sentence."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from isotherm.cli import app
from support.worked import worked_in


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    return worked_in(tmp_path_factory.mktemp("worked"))


@pytest.fixture
def state(worked, tmp_path):
    """The stores of a daemon that has worked, for one test to damage."""
    state = worked.root / "state"
    shutil.copytree(state, tmp_path / "good")
    yield state
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "good", state)


def change(path, sql):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


def asked(lab, *words):
    result = CliRunner().invoke(app, [*words, "--config", str(lab.root / "isotherm.yaml")])
    assert isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


OF_THE_FOLD = "the daemon makes its table again; if it is still so, delete fold.db, which it makes again too"
OF_THE_LEDGER = "restore ledger.db from a backup (docs/runbook.md#restore-the-ledger)"


@pytest.mark.parametrize("words", [("plan",), ("explain", "shop.orders"), ("state", "shop.orders")])
@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("UPDATE tables SET state = '{}'", "a stored TableState cannot be read (table: Field required)"),
        ("UPDATE tables SET facts = 'x'", "a stored TableFacts cannot be read (Invalid JSON: "),
    ],
)
def test_a_row_of_the_fold_that_cannot_be_read_is_told_in_a_sentence(worked, state, words, sql, complaint):
    change(state / "fold.db", sql)
    code, said = asked(worked, *words)

    assert (code, said[: len(complaint)]) == (1, complaint)
    assert said.endswith(OF_THE_FOLD)


def test_a_row_of_the_ledger_that_cannot_be_read_is_told_in_a_sentence(worked, state):
    change(state / "ledger.db", "UPDATE operations SET value = '{}'")
    code, said = asked(worked, "explain", "shop.orders")

    assert (code, said.startswith("a stored Operation cannot be read (job_id: ")) == (1, True)
    assert said.endswith(OF_THE_LEDGER)


def test_a_store_without_one_of_its_tables_is_told_in_a_sentence(worked, state):
    change(state / "fold.db", "DROP TABLE tables")

    assert asked(worked, "plan") == (1, "a store cannot be read: no such table: tables")
