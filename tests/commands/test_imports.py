"""A command imports what its answer needs, and no more: what is large takes seconds."""

import subprocess
import sys

import pytest

LARGE = (
    "confluent_kafka",
    "datafusion",
    "duckdb",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pyiceberg",
    "waitress",
)


@pytest.mark.parametrize(
    ("module", "large"),
    [
        ("isotherm.cli", (*LARGE, "pydantic", "yaml")),
        ("isotherm.commands.plan, isotherm.commands.explain, isotherm.commands.inspector", LARGE),
        ("isotherm.commands.state, isotherm.commands.policy, isotherm.commands.ledger", LARGE),
    ],
)
def test_answers_from_the_stores_import_no_client_of_the_world(module, large):
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & {set(large)!r}))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == []
