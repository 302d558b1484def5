"""Who may do what: each row of the table in docs/operations.md names a test that exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\|(?P<who>[^|]*)\|(?P<can>[^|]*)\|(?P<bound>[^|]*)\| (?P<tests>`[^`:]+::[^`]+`(, `[^`:]+::[^`]+`)*) \|$"
)
TEST = re.compile(r"`(?P<file>[^`:]+)::(?P<test>[^`]+)`")


def rows():
    chapter = (
        (ROOT / "docs" / "operations.md").read_text().partition("\n## Security\n")[2].partition("\n## ")[0]
    )
    return [line for line in chapter.splitlines() if line.startswith("|")][2:]


def test_each_principal_has_a_power_and_a_test_that_exists():
    matched = [ROW.match(line) for line in rows()]

    assert len(matched) > 20
    assert [line for line, found in zip(rows(), matched, strict=True) if found is None] == []
    for found in matched:
        for one in TEST.finditer(found["tests"]):
            tree = ast.parse((ROOT / one["file"]).read_text())
            names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert one["test"] in names, one["file"]
        assert found["can"].strip()
