"""`--version` of both programs."""

from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from isotherm import cli
from isotherm.runtime.version import versions_text
from isotherm_ingest import cli as ingest_cli


@pytest.mark.parametrize("app", [cli.app, ingest_cli.app], ids=["isotherm", "isotherm-ingest"])
def test_both_programs_say_what_runs_here(app):
    answer = CliRunner().invoke(app, ["--version"])

    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert lines[0] == f"isotherm {version('isotherm')}"
    assert f"pyiceberg {version('pyiceberg')}" in lines


def test_what_is_not_there_is_said():
    assert versions_text(("no_such_package",)).endswith("no_such_package is not installed")
