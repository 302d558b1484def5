"""What one commit event costs, and one confirmation, on tables of very different size."""

import tempfile
from pathlib import Path

from made import EVENT_FILES, make
from measure import in_turns, row, times_row

from isotherm.runtime.clock import now_ms
from support.lab import NEVER_DUE, Lab

EVENTS = 15
CONFIRMATIONS = 3
BASE = {"files": 1000, "manifests": 10, "snapshots": 100, "partitions": 100}
SIZES = {
    "1,000 files": {},
    "100,000 files": {"files": 100_000, "partitions": 1000},
    "1,000,000 files": {"files": 1_000_000, "partitions": 10_000},
    "20,000 snapshots": {"snapshots": 20_000},
    "10,000 manifests": {"files": 100_000, "manifests": 10_000},
}
OBSERVED = {"files": 1200, "manifests": 120, "snapshots": 120}
"""The table that `inspect.partitions()` reads: as 120 commits of ten files leave it."""


def benchmarks(say):
    """One event everywhere, `inspect.partitions()` beside it; then what a confirmation costs."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), policy=NEVER_DUE)
        made = {}
        for name, size in {**SIZES, "inspected": OBSERVED}.items():
            say(f"a table of {name} is made")
            made[name] = make(lab, f"shop.t{len(made)}", now_ms=now_ms(), **{**BASE, **size})
        service = lab.service()
        service.start()
        for name, one in made.items():
            say(f"{name}: first scan")
            service.follower.confirm(one.name)
        service.round()
        rows = [*confirmations(service, made, say), *events(service, lab, made, say)]
        lab.executor.stop()
    return rows


def confirmations(service, made, say):
    say(f"{CONFIRMATIONS} confirmations of each")
    actions = {name: lambda one=made[name]: service.follower.confirm(one.name) for name in SIZES}
    took = in_turns(actions, CONFIRMATIONS)
    return [times_row(f"one confirmation, {name}", took[name], took["1,000 files"]) for name in SIZES]


def events(service, lab, made, say):
    say(f"{EVENTS} events of {EVENT_FILES} files for each")
    inspected = lab.catalog.load_table(made["inspected"].name)
    # Announced beforehand, so that nothing but the event itself is measured.
    messages = {name: [one.event(now_ms()) for _ in range(EVENTS + 2)] for name, one in made.items()}

    def consume(name):
        lab.topic.messages.append(messages[name].pop(0))
        service.consume(service.events.poll(0))

    actions = {name: lambda name=name: consume(name) for name in made}
    took = in_turns({**actions, "inspect": inspected.inspect.partitions}, EVENTS)
    heads = {name: service.fold.table(one.uuid).state.head for name, one in made.items()}
    assert all(heads[name] == one.head - 1 for name, one in made.items()), "an event was not applied"
    rows = [
        times_row(f"one event, {name}, against the smallest", took[name], took["1,000 files"])
        for name in SIZES
    ]
    against = f"one event, {OBSERVED['files']:,} files, against inspect.partitions()"
    flat = max(took[name] for name in SIZES) / min(took[name] for name in SIZES)
    return [
        *rows,
        times_row(against, took["inspected"], took["inspect"]),
        row("one event: the dearest ÷ the cheapest of these tables", flat, "times"),
    ]
