"""Work beside the loop that takes hours: it is broken off for the others' sake, and ends at last all the same."""

from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.deletion import Cause, Neighbours
from isotherm.core.model.jobs import Take
from isotherm.iceberg.patience import MOST_EVER_S, MOST_S, REMEMBERED, Patience
from isotherm.iceberg.stopping import IsStopped
from isotherm.iceberg.threads import Beside
from isotherm.iceberg.values import loaded_table
from isotherm.service.ports import Search
from support.in_process import AtOnce
from support.lab import Lab
from support.memory_topics import Clock

HOUR_S = 3600


def test_work_that_takes_long_ends_at_last() -> None:
    """A search and an expiry have another name each time, and are known by their table."""
    clock, step = Clock(), Barrier(2, timeout=30)
    beside: Beside[str] = Beside(2 * HOUR_S, clock.monotonic_s)

    def of_hours(count: int) -> Callable[[IsStopped], str]:
        def work(is_stopped: IsStopped) -> str:
            for _ in range(count):
                step.wait()
                stops = is_stopped()
                step.wait()
                if stops:
                    return "stopped"
            return "done"

        return work

    def ended(name: str, hours: int, whose: str) -> list[str]:
        beside.start(name, of_hours(hours), whose)
        for _ in range(hours):
            clock.advance(HOUR_S)
            step.wait()
            step.wait()
            if (told := [str(result) for _, result in beside.ended()]) == ["done"]:
                return told  # by itself, as soon as that
            if told:
                step.wait()  # it learns that it was stopped
                step.wait()
                return told
        beside.wait(30)
        return [str(result) for _, result in beside.ended()]

    told = [ended(f"job {number}", 20, "a table") for number in range(4)]
    assert told[:3] == [
        [f"not done after {took}, though it got on; it begins again, and may take {then} then"]
        for took, then in (("3h", "6h"), ("6h", "12h"), ("12h", "1d"))
    ]
    assert told[3] == ["done"]
    assert ended("job 5", 20, "a table") == ["done"], "so large it is the next time too"
    assert "not done after 3h," in ended("job 6", 20, "another table")[0]


def test_there_is_a_limit_to_patience_and_to_what_is_remembered() -> None:
    patience = Patience()
    for _ in range(10):
        patience.broken_off("endless")

    assert patience.allowed_s("endless") == MOST_EVER_S == 48 * HOUR_S
    assert "not done after 2d, though" in str(patience.broken_off("endless"))
    for number in range(REMEMBERED):
        patience.broken_off(f"table {number}")
    assert patience.allowed_s("endless") == MOST_S
    assert patience.allowed_s("table 0") == 2 * MOST_S


class Noting(AtOnce):
    """Begins nothing, and notes by what the work is known."""

    def __init__(self) -> None:
        self.known: list[tuple[str, str]] = []

    def beside(self, limit_s: float) -> Any:
        del limit_s
        return self

    def start(self, name: str, work: Callable[[IsStopped], Any], whose: str = "") -> None:
        del work
        self.known.append((name, whose or name))


def test_each_kind_of_work_is_known_by_its_table_when_it_is_begun_again(tmp_path: Path) -> None:
    lab, noting = Lab(tmp_path), Noting()
    lab.threads = noting
    table = loaded_table(lab.create(), "shop.orders")
    uuid = table.table.uuid
    maintainer = lab.maintainer(lab.executor)
    for job in ("job 1", "job 2"):
        maintainer.start_search(
            table, job, Search(uuid, Cause.ORPHAN, "file:///t", Neighbours("file:///t"), 0)
        )
        maintainer.start_reading(table, job, [1])
        maintainer.start_binding(table, UNPARTITIONED, job, "(all)", Take(), 1, "hash", "why")

    names, subjects = zip(*noting.known, strict=True)
    assert names == ("job 1",) * 3 + ("job 2",) * 3
    assert subjects[:3] == subjects[3:]
    assert all(subject.startswith(uuid) for subject in subjects)
