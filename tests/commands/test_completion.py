"""A shell completes the commands: it asks the program itself, which answers in its own words."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "program", "begun", "completed"),
    [
        ("isotherm.entry_point", "isotherm", "pl", "plan"),
        ("isotherm.entry_point", "isotherm", "policy va", "validate"),
        ("isotherm_ingest.cli", "isotherm-ingest", "val", "validate"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_command_is_completed(module, program, begun, completed, shell):
    line = f"{program} {begun}"
    asked = {
        f"_{program.upper().replace('-', '_')}_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    code = f"import sys; sys.argv = [{program!r}]; from {module} import {'main' if 'entry_point' in module else 'app'} as run; run()"
    told = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )

    assert completed in told.stdout
