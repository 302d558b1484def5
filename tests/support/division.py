"""How the tests are divided between processes (`make test`, pytest-xdist): what is shared stays in one process.

A group is what one process plays from its first test to its last: all tests with the Spark session, all with Spark's Connect
server, or the tests of one file, because they share what a fixture of theirs has made. The longest groups begin first, so that no process is left
alone with one at the end. Servers that belong to a session start once in each process that needs them.

Tests with servers wait more than they compute. Two processes play them, because with a third a broker on two cores
missed its time-outs. Every further process plays groups without servers, and takes the time that the first two and their
servers leave. It begins with those that use all cores by themselves: at the end they would keep the others waiting.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LONGEST_WITH_SERVERS = "tests/demo/test_demo.py"
LONGEST = ("tests/mutants/", "tests/simulation/", "tests/workloads/", "tests/service/windows/test_in_turn.py")
"""Without servers; the first two use all cores."""

WITH_SERVERS = 2
"""So many processes play tests with servers."""
NICENESS = 9
"""Of the others. On two cores that are busy it leaves such a process an eighth of one: its tests do not time out."""

SESSION, CONNECT = SHARED = ("spark", "connect")
"""Groups of several files."""
MARKED = re.compile(r"^(?:@|pytestmark = .*)pytest\.mark\.spark", re.MULTILINE)
CONNECTED = re.compile(r"\bconnect_server\b")
"""The fixture with Spark's Connect server."""
SERVERS = re.compile(r"pytest\.mark\.(?:spark|stack)")


class Division(LoadScopeScheduling):
    """Gives the next group to the process that has nothing to do."""

    def _split_scope(self, nodeid: str) -> str:
        # So do pytest-xdist's own divisions. Its groups by marker do not work with pytest 9.2.
        file = file_of(nodeid)
        return shared_by(self.config.rootpath / file) or file

    def _assign_work_unit(self, node: Any) -> None:
        if stands_back(node.workerinput) and not all(stands_back(one.workerinput) for one in self.nodes):
            group = next((one for one in self.workqueue if not self._has_servers(one)), None)
            if group is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)

    def _has_servers(self, group: str) -> bool:
        return group in SHARED or names_servers(self.config.rootpath / group)


def stands_back(workerinput: Mapping[str, Any]) -> bool:
    """Whether a process leaves servers, and the cores, to others."""
    return int(workerinput["workerid"].removeprefix("gw")) >= WITH_SERVERS


def take_place(config: pytest.Config) -> None:
    """Give this process, one of several, and what it starts its priority."""
    if stands_back(config.workerinput):
        # Linux divides the time between sessions first, and each server has one of its own. In the others' session a
        # process that is nice to them would get as much as a server.
        os.setsid()
        os.nice(NICENESS)
        with suppress(OSError):  # where sessions do not count, this file may not be there
            Path("/proc/self/autogroup").write_text(str(NICENESS), encoding="ascii")


def in_turn(items: list[pytest.Item]) -> None:
    """Put the tests in the order in which their groups begin: Spark's, others with servers, the rest; the longest first."""
    items.sort(key=turn)


def turn(item: pytest.Item) -> int:
    """When a test's group begins, the smallest first."""
    if takes_the_session(item.path):
        return 0
    if item.nodeid.startswith(LONGEST_WITH_SERVERS):
        return 1
    if item.get_closest_marker("stack"):
        return 2
    return 3 if item.nodeid.startswith(LONGEST) else 4


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.partition("::")[0]


@cache
def shared_by(file: Path) -> str:
    """The group of a file whose tests share something with other files, or nothing."""
    if takes_the_session(file):
        return SESSION
    return CONNECT if CONNECTED.search(file.read_text(encoding="utf-8")) else ""


@cache
def takes_the_session(file: Path) -> bool:
    """Whether a file has tests with the Spark session. They are marked; the process that divides imports no tests."""
    return MARKED.search(file.read_text(encoding="utf-8")) is not None


@cache
def names_servers(file: Path) -> bool:
    """Whether a file has tests with servers."""
    return SERVERS.search(file.read_text(encoding="utf-8")) is not None
