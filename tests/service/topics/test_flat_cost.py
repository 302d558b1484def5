"""What an event costs does not depend on its table: counted in steps of SQLite and in files read, not in seconds."""

import sys
import tracemalloc
from collections import Counter

import pytest

from isotherm.core.deletion import Cause, Mark
from isotherm.runtime.clock import now_ms
from perf.made import make
from support.lab import EAGER, EXPIRING, NEVER_DUE, Lab, uuid_of, wait_for_children

SMALL = {"files": 200, "manifests": 10, "partitions": 20, "snapshots": 20}
STEP = 10
"""SQLite tells of every so many steps of its virtual machine."""


def cost_of_an_event(folder, policy=NEVER_DUE, **size):
    """Steps of each store for one event, and the files that were opened for it."""
    lab = Lab(folder, policy=policy)
    made = make(lab, "shop.orders", columns=3, now_ms=now_ms(), **{**SMALL, **size})
    service = lab.service()
    service.start()
    service.follower.confirm(made.name)
    row = service.fold.table(made.uuid)
    service.verdicts.decide(row, (), whole=True)
    opened = []
    loaded = service.follower.loaded(made.uuid)
    new_input = loaded.handle.io.new_input
    loaded.handle.io.new_input = lambda location: opened.append(location) or new_input(location)
    steps = Counter()

    def count(store):
        steps[store] += STEP

    # The first two create what SQLite and the fold create but once.
    for number in range(3):
        lab.topic.messages.append(made.event(now_ms()))
        if number == 2:
            opened.clear()
            service.fold.db.set_progress_handler(lambda: count("fold"), STEP)
            service.ledger.db.set_progress_handler(lambda: count("ledger"), STEP)
        service.consume(service.events.poll(0))
    row = service.fold.table(made.uuid)
    assert (row.state.head, row.is_trusted) == (made.head, True)
    lab.executor.stop()
    return steps, len(opened)


@pytest.mark.parametrize(
    "more",
    [
        {"files": 20_000},
        {"files": 20_000, "partitions": 2000},
        {"snapshots": 3000},
        {"files": 2000, "manifests": 500},
        {"files": 20_000, "partitions": 2000, "policy": EAGER},
    ],
    ids=["files", "partitions", "snapshots", "manifests", "partitions that are due"],
)
def test_an_event_costs_the_same_however_large_its_table_is(tmp_path, more):
    few, opened_few = cost_of_an_event(tmp_path / "few")
    many, opened_many = cost_of_an_event(tmp_path / "many", **more)

    assert (opened_few, opened_many) == (1, 1)
    for store in ("fold", "ledger"):
        assert many[store] <= 1.2 * few[store], (
            f"{store}: {few[store]} steps, {many[store]} for the larger table"
        )


def memory_for_a_deletion(folder, strangers):
    """What it takes to expire and delete files of one table, after so many others have come and gone."""
    lab = Lab(folder, policy=EXPIRING)
    table = lab.create()
    for hour in range(6):
        lab.append(table, hour)
    service = lab.service()
    with service.ledger.transaction():
        for number in range(strangers):
            service.ledger.place(f"{number}", f"file://{folder}/warehouse/tmp/orders_{number}")
    service.start()
    tracemalloc.start()
    for _ in range(60):
        lab.ahead_ms += 30_000
        service.step(0)
        wait_for_children(service)
        if service.ledger.deletions(uuid_of(table)).get("deleted"):
            break
    else:
        raise AssertionError("no file went")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    service.stop()
    return peak


def test_a_deletion_takes_no_more_memory_where_thousands_of_tables_have_come_and_gone(tmp_path):
    few = memory_for_a_deletion(tmp_path / "few", 10)
    many = memory_for_a_deletion(tmp_path / "many", 20_000)

    assert many < few + 2_500_000  # reading them all takes more than twice as much


def test_all_names_of_the_catalog_are_gone_through_once_for_all_tables_whose_files_wait(tmp_path):
    lab = Lab(tmp_path, policy=NEVER_DUE)
    tables = [lab.create(f"shop.t{number}") for number in range(5)]
    for table in tables:
        lab.append(table, 1)
    service = lab.settled()
    at_ms = service.now_ms()
    for table in tables:
        mark = Mark(f"{table.location()}/data/isotherm-job-0.parquet", "job", Cause.LEFTOVER, None)
        service.ledger.mark(uuid_of(table), "job", [mark], at_ms, due_at_ms=at_ms)
    calls = Counter()
    sys.setprofile(lambda frame, event, _: calls.update([frame.f_code.co_name] if event == "call" else []))
    try:
        service.deletions.sweep()
    finally:
        sys.setprofile(None)
    service.stop()

    assert calls["_due"] == len(tables)
    assert calls["seen_since_ms"] == 1
