"""A command begins to answer before anything large is imported, and imports what its answer needs, and no more."""

import json
import os
import subprocess
import sys

import pytest

from support.worked import worked_in

LARGE = {
    "asyncio",
    "confluent_kafka",
    "datafusion",
    "duckdb",
    "fastavro",
    "hypothesis",
    "markdown_it",
    "numpy",
    "pandas",
    "plotext",
    "prometheus_client",
    "psutil",
    "pyarrow",
    "pydantic",
    "pygments",
    "pyiceberg",
    "requests",
    "rich",
    "sqlalchemy",
    "sqlite3",
    "structlog",
    "waitress",
    "yaml",
}
"""Each of these takes from ten milliseconds to two seconds of CPU."""

WATCHED = """
import io, json, sys

def large():
    return sorted(LARGE & set(sys.modules))

class Watched(io.TextIOWrapper):
    first = None

    def write(self, text):
        Watched.first = large() if Watched.first is None else Watched.first
        return super().write(text)

sys.stdout = Watched(sys.stdout.buffer, encoding="utf-8")
sys.stderr = Watched(sys.stderr.buffer, encoding="utf-8")
from isotherm.entry_point import main
ended = None
try:
    main()
except SystemExit as err:
    ended = err.code
sys.stdout.flush()
sys.stderr.flush()
with open(REPORT, "w") as file:
    json.dump({"first": Watched.first, "all": large(), "exit": ended or 0}, file)
"""

ASKS = {"pydantic", "rich", "sqlite3", "yaml"}
"""The configuration, the stores and a table for people: what no answer goes without."""
READS = {"datafusion", "fastavro", "numpy", "pyarrow", "pyiceberg", "requests", "sqlalchemy"}
"""PyIceberg, with what it brings along (in the tests its catalog is a database)."""
JUDGES = {"confluent_kafka", "duckdb"}

COMMANDS = [
    ("plan", ASKS, ASKS),
    ("explain shop.orders at_hour=2026-01-01-04", ASKS, ASKS),
    ("state shop.orders", ASKS, ASKS),
    ("state shop.orders --verify", ASKS, ASKS | READS | {"asyncio"}),
    ("simulate shop.orders", ASKS, ASKS | READS | {"asyncio", "plotext"}),
    ("simulate shop.orders --suggest", ASKS, ASKS | READS | {"asyncio"}),
    ("policy validate", ASKS, ASKS),
    ("policy test", ASKS, ASKS),
    ("policy show shop.orders", ASKS, ASKS),
    ("policy diff policies policies --plan", ASKS, ASKS),
    ("policy schema", ASKS, ASKS),
    ("ledger backup copy.db", ASKS, ASKS),
    # Of a table that is not there: before the broker is asked, which does not answer here.
    ("audit shop.nothing", ASKS, ASKS | READS | JUDGES | {"asyncio"}),
    ("doctor", ASKS, ASKS | READS | {"asyncio", "confluent_kafka"}),
]
MISTAKES = [
    ("run --config nowhere.yaml", 78),
    ("demo --for ever", 2),
    ("doctor nowhere.yaml", 78),
    ("doctor --bundle nowhere/b.zip", 2),
    ("init --property nothing new", 2),
    ("pause shop.orders --config nowhere.yaml", 78),
    ("pause shop.orders --for ever", 2),
    ("resume shop.orders --config nowhere.yaml", 78),
]
OPTIONS = {"pydantic"}
"""Typer takes it to look at the types of a command's options."""
HELP = [("", set()), ("policy", OPTIONS), ("plan", OPTIONS), ("run", OPTIONS)]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Run a command in a process of its own: what of `LARGE` it had when it began to answer, and in the end."""
    root = tmp_path_factory.mktemp("asked")
    worked_in(root)
    code = f"LARGE, REPORT = {LARGE!r}, {str(root / 'report.json')!r}\n{WATCHED}"

    def ask(words):
        subprocess.run(
            [sys.executable, "-c", code, *words.split()],
            cwd=root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"},
            capture_output=True,
            check=True,
        )
        return json.loads((root / "report.json").read_text())

    return ask


@pytest.mark.parametrize(("words", "first", "all_"), COMMANDS)
def test_a_command_imports_what_its_answer_needs_and_no_more(asked, words, first, all_):
    report = asked(words)

    assert report["first"] is not None
    assert set(report["first"]) <= first
    assert set(report["all"]) <= all_


@pytest.mark.parametrize(("command", "needed"), HELP)
def test_help_needs_nothing_large(asked, command, needed):
    report = asked(f"{command} --help")

    assert report["exit"] == 0
    assert set(report["all"]) <= needed


@pytest.mark.parametrize(("words", "exit_code"), MISTAKES)
def test_a_mistake_is_told_before_anything_large_is_imported(asked, words, exit_code):
    report = asked(words)

    assert report["exit"] == exit_code
    assert set(report["all"]) <= ASKS
