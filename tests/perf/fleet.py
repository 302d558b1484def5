"""A fleet: 1,000 tables of 1,000 partitions each, one daemon, every table committing once a minute.

The tables share their manifests; the fold does not know. First the events come as fast as they are taken, then at the
fleet's own pace, with planning rounds between them as in service, and the time from a commit to its verdict is taken.
"""

import gc
import tempfile
import time
from pathlib import Path

import psutil
from made import EVENT_FILES, FEW_FILES, copies, make
from measure import quantile, row, times_row

from isotherm.core import observations as seen
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import LoopConfig
from support.lab import Lab

TABLES = 1000
PARTITIONS = 1000
BATCH = 500
"""Messages that one poll of the control topic may hand out."""
PACED_S = 30
PACE_PER_S = TABLES / 60
POLICY = 'tables: "*"\ncompact: {min_files: 1000000, fill_files: 1000000}\nexpire: {enabled: false}\n'
MIB = 1024**2


def benchmarks(say):
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), policy=POLICY)
        # The pace of service; nobody goes to the catalog for tables that have just been seen.
        pace = LoopConfig(plan_every_s=10, poll_tables_every_s=3600)
        lab.config = lab.config.model_copy(update={"loop": pace})
        say(f"{TABLES:,} tables are made")
        size = {"files": PARTITIONS, "manifests": 1, "partitions": PARTITIONS, "columns": 3}
        tables = copies(lab, make(lab, "shop.t0", now_ms=now_ms(), **size), TABLES)
        process = psutil.Process()
        before = process.memory_info().rss
        service = lab.service()
        service.start()
        say(f"first scans, {TABLES * PARTITIONS:,} partitions")
        started = time.perf_counter()
        for one in tables:
            service.follower.confirm(one.name)
        scanned_s = time.perf_counter() - started
        scanned = process.memory_info().rss
        say("the first round decides of all")
        started = time.perf_counter()
        service.round()
        rows = [
            row("fleet: first scans, tables of 1,000 partitions", TABLES / scanned_s, "tables/s"),
            times_row("fleet: first round, 1,000,000 partitions", time.perf_counter() - started),
            *rounds(service, tables, lab, say),
            *burst(service, tables, lab, say),
            *paced(service, tables, lab, say),
        ]
        now = process.memory_info().rss
        rows += [
            row("fleet: memory that the first scans add", (scanned - before) / MIB, "MiB"),
            row("fleet: memory that all of it adds", (now - before) / MIB, "MiB"),
            row("fleet: memory of the process", now / MIB, "MiB"),
        ]
        lab.executor.stop()
    return rows


def rounds(service, tables, lab, say):
    """A planning round when nothing was touched, and when ten tables were."""
    say("rounds")
    service.round()
    started = time.perf_counter()
    service.round()
    idle = time.perf_counter() - started
    for one in tables[:10]:
        lab.topic.messages.append(one.event(now_ms()))
    service.consume(service.events.poll(0))
    lab.seen.clear()
    started = time.perf_counter()
    service.round()
    touched = time.perf_counter() - started
    (planned,) = (one for one in lab.seen if isinstance(one, seen.RoundPlanned))
    return [
        times_row("fleet: a round, nothing touched", idle),
        times_row(f"fleet: a round, ten tables touched ({planned.tables} looked at)", touched),
    ]


def burst(service, tables, lab, say):
    """Events as fast as they are taken, in the batches that Kafka hands out, until all verdicts are made."""
    say("events, as fast as they go")
    gc.freeze()  # as the daemon does
    rows = []
    for files, name, some, each in (
        (EVENT_FILES, "one of each table", tables, 1),
        (EVENT_FILES, "ten of each table, as after ten minutes", tables, 10),
        (EVENT_FILES, "ten of each of 100 tables", tables[:100], 10),
        (FEW_FILES, "one of each table", tables, 1),
        (FEW_FILES, "ten of each table, as after ten minutes", tables, 10),
    ):
        messages = [one.event(now_ms(), files) for _ in range(each) for one in some]
        walls, cpus = time.perf_counter(), time.process_time()
        for at in range(0, len(messages), BATCH):
            lab.topic.messages.extend(messages[at : at + BATCH])
            service.consume(service.events.poll(0))
        service.consume(())  # no more wait: the verdicts that do are made
        wall_s, cpu_s = time.perf_counter() - walls, time.process_time() - cpus
        what = f"fleet: events of {files} files, {name}, as fast as they go"
        rows += [
            row(what, len(messages) / wall_s, "per s"),
            row(f"{what}, CPU time", len(messages) / cpu_s, "per s"),
        ]
    return rows


def paced(service, tables, lab, say):
    """From a commit to its verdict, at the fleet's own pace."""
    say(f"{PACE_PER_S:.0f} events a second for {PACED_S} s, a round every 10 s")
    lab.seen.clear()
    begun = time.perf_counter()
    sent = 0
    while (passed := time.perf_counter() - begun) < PACED_S:
        due = int(passed * PACE_PER_S)
        for number in range(sent, due):
            # Committed when it was due, also where the loop was busy then.
            late_ms = (passed - (number + 1) / PACE_PER_S) * 1000
            lab.topic.messages.append(tables[number % TABLES].event(now_ms() - int(late_ms)))
        if due == sent:
            time.sleep(0.001)
        sent = max(sent, due)
        service.step(0)
    waited = [
        one.decided_at_ms - one.committed_at_ms for one in lab.seen if isinstance(one, seen.EventApplied)
    ]
    planned = [one.seconds for one in lab.seen if isinstance(one, seen.RoundPlanned)]
    # The self-audit asks the catalog, which knows nothing of events that were only made up: a few are put off.
    assert len(waited) > 0.9 * sent, f"{sent - len(waited)} of {sent} events were not applied"
    return [
        times_row("fleet: commit to verdict, p50", quantile(waited, 0.5) / 1000),
        times_row("fleet: commit to verdict, p99", quantile(waited, 0.99) / 1000),
        times_row("fleet: longest round", max(planned, default=0.0)),
    ]
