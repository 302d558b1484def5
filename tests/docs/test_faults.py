"""The table of faults names tests that exist, and every test on sick parts has its row."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def named_below(folder):
    """The names of all test functions below a folder."""
    return {
        node.name
        for path in folder.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_each_fault_has_a_test_that_exists():
    text = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| fault")]
    known = named_below(ROOT / "tests")
    named = {row: re.findall(r"`(test_\w+)`", row) for row in rows}

    assert len(rows) > 40
    assert [row for row, names in named.items() if not names] == []
    assert {name for names in named.values() for name in names} - known == set()


def test_every_test_on_sick_parts_has_its_row():
    text = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")

    assert {name for name in named_below(ROOT / "tests" / "faults") if f"`{name}`" not in text} == set()
