"""Jobs are bound to their files beside the loop, and nothing of that is left where it comes to nothing."""

from dataclasses import dataclass, field
from threading import Event
from typing import Any

from isotherm.core import observations as seen
from isotherm.core.model.jobs import Take
from isotherm.iceberg.values import loaded_table
from isotherm.service.ports import Bound
from support.lab import of, started, until_a_job_runs, wait_for_children

SMALL = Take(750_000, with_deletes=True)


@dataclass
class HeldBack:
    """A FileIO that answers when it is let."""

    io: Any
    may_answer: Event
    opened: list[str] = field(default_factory=list)

    def new_input(self, location: str) -> Any:
        self.opened.append(location)
        assert self.may_answer.wait(30)
        return self.io.new_input(location)


def test_a_store_that_does_not_answer_holds_up_no_turn_of_the_loop(lab):
    table = lab.create()
    for hour in (1, 1, 1):
        lab.append(table, hour)
    loaded = loaded_table(table, "shop.orders")
    (key,) = lab.scan()
    may_answer = Event()
    loaded.handle.io = HeldBack(loaded.handle.io, may_answer)
    maintainer = lab.service().maintainer

    maintainer.start_binding(loaded, key, "job", "hour 1", SMALL, 1_000_000, "policy", "a test")
    before = maintainer.bound()
    may_answer.set()
    maintainer.wait(30)
    ((job_id, bound),) = maintainer.bound()

    assert list(before) == []
    assert job_id == "job"
    assert isinstance(bound, Bound)
    assert (bound.live_data_files, len(bound.job.data_files)) == (3, 3)


def test_a_binding_that_nobody_wants_any_more_reads_no_further(lab):
    table = lab.create()
    for hour in (1, 1, 1):
        lab.append(table, hour)
    (key,) = lab.scan()
    service = lab.service()
    slow, quick = (loaded_table(lab.catalog.load_table("shop.orders"), "shop.orders") for _ in range(2))
    slow.handle.io = HeldBack(slow.handle.io, Event())

    service.maintainer.start_binding(slow, key, "slow", "hour 1", SMALL, 1_000_000, "policy", "a test")
    service.maintainer.cancel("slow")
    slow.handle.io.may_answer.set()
    # The next one begins when the thread of the first has ended.
    service.maintainer.start_binding(quick, key, "quick", "hour 1", SMALL, 1_000_000, "policy", "a test")
    ended = []
    while not ended:
        service.maintainer.wait(30)
        ended += service.maintainer.bound()

    assert [job_id for job_id, _ in ended] == ["quick"]
    assert len(slow.handle.io.opened) <= 1, "the list of manifests, and none of the three"


def test_a_write_to_a_partition_that_is_being_bound_ends_that(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = started(lab)
    for _ in range(20):
        service.step(0)
        if len(service.compactions):
            break
    assert len(service.compactions) == 1
    lab.append(table, 1)

    service.consume(service.events.poll(0))
    service.maintainer.wait(30)

    assert (service.compactions.start_bound(), len(service.compactions)) == (0, 0)
    assert (of(lab, seen.JobStarted), list(service.ledger.operations())) == ([], [])
    service.stop()


def test_a_daemon_that_stops_while_it_binds_leaves_nothing(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = started(lab)
    for _ in range(20):
        service.step(0)
        if len(service.compactions):
            break
    service.compactions.stop()

    assert (len(service.compactions), list(service.ledger.unfinished())) == (0, [])
    until_a_job_runs(service)
    while len(service.compactions):
        # What ends first may be something else beside the loop.
        wait_for_children(service)
        service.step(0)
    assert [one.state for one in service.ledger.operations()] == ["done"]
    service.stop()
