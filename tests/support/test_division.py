"""How the tests are divided between processes."""

from dataclasses import dataclass, field

import pytest

from support.division import Names, divide


@dataclass
class Item:
    """What the division asks a test for."""

    nodeid: str
    fixturenames: tuple[str, ...] = ()
    marks: list[str] = field(default_factory=list)
    group: str = ""

    def get_closest_marker(self, name):
        return name if name in self.marks else None

    def add_marker(self, marker):
        (self.group,) = marker.args


def test_one_process_has_all_tests_with_the_session_and_each_file_whole():
    items = [
        Item("tests/core/test_a.py::test_one"),
        Item("tests/core/test_a.py::test_judged_by_spark", ("tmp_path", "spark")),
        Item("tests/core/test_a.py::test_two[a@b]"),
        Item("tests/iceberg/test_b.py::test_three", ("spark",)),
    ]
    divide(items)

    assert {item.nodeid.partition("::")[2]: item.group for item in items} == {
        "test_judged_by_spark": "spark",
        "test_three": "spark",
        "test_one": "tests/core/test_a.py",
        "test_two[a@b]": "tests/core/test_a.py",
    }


def test_the_longest_begin_first_and_what_uses_all_cores_is_last():
    names = {
        "spark": Item("tests/z.py::test", ("spark",), ["spark", "stack"]),
        "servers": Item("tests/y.py::test", ("kafka",), ["stack"]),
        "neither": Item("tests/b.py::test"),
        "all cores": Item("tests/simulation/a.py::test"),
    }
    items = list(names.values())[::-1]
    divide(items)

    assert items == list(names.values())


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("tests/a.py::test@tests/a.py", "tests/a.py::test"),
        ("tests/a.py::test[b@c]@spark", "tests/a.py::test[b@c]"),
        ("tests/a.py::test[b@c]", "tests/a.py::test[b@c]"),
        ("tests/a.py::test", "tests/a.py::test"),
    ],
)
def test_what_is_reported_has_the_name_that_pytest_takes(reported, name):
    report = Item(reported)
    Names().pytest_runtest_logreport(report)

    assert report.nodeid == name
