"""The shape of the code: a file is one idea, a function one thing."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("daemon", "ingest", "grafana") for path in (ROOT / folder).rglob("*.py"))
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
"""Lines, from `def` to the end, docstring and all."""


def lengths(source: str) -> dict[str, int]:
    """The lines of each function, nested ones too, by where it begins and its name."""
    functions = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return {f"{one.lineno}: {one.name}": (one.end_lineno or 0) - one.lineno + 1 for one in functions}


def too_long(source: str) -> list[str]:
    """What should be divided."""
    lines = len(source.splitlines())
    long = [f"{lines} lines"] if lines > LONGEST_FILE else []
    return long + [name for name, length in lengths(source).items() if length > LONGEST_FUNCTION]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_and_no_function_is_too_long(path):
    assert [] == too_long(path.read_text(encoding="utf-8"))


def test_what_is_too_long_is_found():
    body = "    pass\n" * LONGEST_FUNCTION

    assert ["1: one"] == too_long(f"def one():\n{body}")
    assert [] == too_long(f"def one():\n{body}".removesuffix("    pass\n"))
    assert ["401 lines"] == too_long("x = 1\n" * 401)
    assert [] == too_long("x = 1\n" * 400)
