"""Verdicts: on 100,000 partitions at once, on the few that an event touched, and on none."""

import statistics
import tempfile
import time
from pathlib import Path

from measure import in_turns, times_row

import support.builders as b
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Policy
from isotherm.runtime.clock import now_ms
from support.lab import Lab

PARTITIONS = 100_000
RUNS = 5
POLICY = 'tables: "*"\ncompact: {min_files: 1000000, fill_files: 1000000}\nexpire: {enabled: false}\n'


def benchmarks(say):
    say(f"{PARTITIONS:,} partitions are made up")
    at_ms = now_ms()
    newest = at_ms // b.HOUR
    partitions = {
        b.key(newest - place): b.partition(
            place % 150, (place % 40 + 1) * b.MIB, deletes=place % 7, last_write_at_ms=at_ms - place * b.HOUR
        )
        for place in range(PARTITIONS)
    }
    partitions = {key: state for key, state in partitions.items() if state.data}
    state = b.table_state(boundary_ms=newest * b.HOUR, totals={FileKind.DATA: FileStats(1, 1, 1)})
    view = b.view(partitions, state=state, snapshots=b.snapshots(100, newest_at_ms=at_ms))
    say("the planner alone")
    took = in_turns({"plan": lambda: plan(view, Policy(), at_ms)}, RUNS)
    rows = [times_row(f"planner alone, {len(partitions):,} partitions", took["plan"])]
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), policy=POLICY)
        service = lab.service()
        service.start()
        with service.fold.transaction():
            service.fold.replace(state, view.facts, partitions, view.snapshots)
        say("verdicts from the fold and into it")
        rows += verdicts(service, state, list(partitions))
        lab.executor.stop()
    return rows


def verdicts(service, state, keys):
    uuid = state.table.uuid

    def decide():
        started = time.process_time()
        service.verdicts.decide(service.fold.table(uuid), ())
        return time.process_time() - started

    whole = decide()
    ten, none = [], []
    for number in range(4 * RUNS):
        # The oldest: the newest change by themselves, as time goes by.
        service.fold.touch(uuid, keys[-10 * (number + 1) :][:10])
        ten.append(decide())
        none.append(decide())
    return [
        times_row(f"verdicts with the fold, all of {len(keys):,} partitions touched", whole),
        times_row("verdicts with the fold, 10 of them touched", statistics.median(ten)),
        times_row("verdicts with the fold, none touched", statistics.median(none)),
    ]
