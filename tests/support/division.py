"""How the tests are divided between processes (`make test`, pytest-xdist): what is shared stays in one process.

A group is what one process plays from its first test to its last: all tests with the Spark session, or the tests of one
file, because they share what a fixture of theirs has made. The longest groups begin first, so that no process is left
alone with one at the end. Servers that belong to a session start once in each process that needs them.

Tests with servers wait more than they compute, and begin early. So one process more than there are cores uses the time.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

LONGEST = ("tests/demo/test_demo.py",)
LAST = ("tests/mutants/", "tests/simulation/")
"""They use all cores by themselves, so nothing need run beside them."""

MARKED = re.compile(r"^(?:@|pytestmark = .*)pytest\.mark\.spark", re.MULTILINE)


class Division(LoadScopeScheduling):
    """Gives the next group to the process that has nothing to do."""

    def _split_scope(self, nodeid: str) -> str:
        # So do pytest-xdist's own divisions. Its groups by marker do not work with pytest 9.2.
        file = file_of(nodeid)
        return "spark" if takes_the_session(self.config.rootpath / file) else file


def in_turn(items: list[pytest.Item]) -> None:
    """Put the tests in the order in which their groups begin: Spark's, the longest, those with servers, the rest."""
    items.sort(key=turn)


def turn(item: pytest.Item) -> int:
    """When a test's group begins, the smallest first."""
    if takes_the_session(item.path):
        return 0
    if item.nodeid.startswith(LONGEST):
        return 1
    if item.get_closest_marker("stack"):
        return 2
    return 4 if item.nodeid.startswith(LAST) else 3


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.partition("::")[0]


@cache
def takes_the_session(file: Path) -> bool:
    """Whether a file has tests with the Spark session. They are marked; the process that divides imports no tests."""
    return MARKED.search(file.read_text(encoding="utf-8")) is not None
