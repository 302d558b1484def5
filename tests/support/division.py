"""How the tests are divided between processes (`make test`, pytest-xdist): what is shared stays in one process.

A group is what one process plays from its first test to its last: all tests with the Spark session, or the tests of one
file, because they share what a fixture of theirs has made. The longest groups begin first, so that no process is left
alone with one at the end. Servers that belong to a session start once in each process that needs them.
"""

import pytest

LAST = ("tests/mutants/", "tests/simulation/")
"""They use all cores by themselves, so nothing need run beside them."""


def divide(items: list[pytest.Item]) -> None:
    """Put the tests in the order in which their groups begin, and write its group on each."""
    items.sort(key=turn)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))


def group(item: pytest.Item) -> str:
    """The name of a test's group."""
    return "spark" if uses_spark(item) else item.nodeid.partition("::")[0]


def turn(item: pytest.Item) -> int:
    """When a test's group begins, the smallest first: Spark's, then what waits for servers, then the rest."""
    if uses_spark(item):
        return 0
    if item.get_closest_marker("stack"):
        return 1
    return 3 if item.nodeid.startswith(LAST) else 2


def uses_spark(item: pytest.Item) -> bool:
    """Whether a test takes the Spark session."""
    return "spark" in getattr(item, "fixturenames", ())


class Names:
    """A plugin for the process that reports: a test's name there is what pytest takes, without its group."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take off the group, which xdist has put behind the name."""
        name, at, _ = report.nodeid.rpartition("@")
        if at and report.nodeid.rfind("]") < len(name):
            report.nodeid = name
