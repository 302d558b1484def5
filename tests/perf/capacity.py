"""What one daemon on one core holds: four fleets, each held against what is promised of it (docs/operations.md).

A state that would take hours to write is put into the stores as the daemon itself would leave it: the log of ten
thousand snapshots stands in a few real tables, a million partitions and files only in the stores. What is measured is
the service itself. A share of a core is CPU time of one step times how often it comes: commits as the fleet makes them,
confirmations as the agenda asks for them, expiries as the default policy finds them due.
"""

import gc
import json
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import psutil
from made import copies, make
from measure import quantile, row, times_row
from prometheus_client import generate_latest
from proving import REQUEST_S, SWEPT, proved

import support.builders as b
from isotherm.contract.identity import TableId
from isotherm.core import observations as seen
from isotherm.core.deletion import Cause, Mark, Seen
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.policy.policy import Expire
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import LoopConfig
from isotherm.service.jobs.expiries import MARKED_AT_ONCE
from isotherm.store import Ledger
from isotherm.store.ledger import Account
from isotherm.store.ledger.ledger import MAX_BYTES
from isotherm.telemetry.metrics import Metrics
from support.lab import Lab, wait_for_children

DEFAULT_POLICY = (Path(__file__).parents[2] / "policies" / "default.yaml").read_text()
MIB = 1024**2
MEMORY_MIB, SCRAPE_MS, STEP_MS = 1024, 1000, 1000
"""What is promised: memory of the process, a scrape, the longest step of the loop."""
TABLES, WEEK, REAL = 1000, 10_080, 8
"""Tables with a commit a minute, the snapshots of a week, and how many of the tables are real ones."""
COUNTED = 5000
"""Snapshots by which the ledger's growth is told."""
KNOWN, ACTIVE = 10_000, 1000
PARTITIONS, SLICES = 1_000_000, 15
FILES, ON_DISK = 1_000_000, 6000


def benchmarks(say):
    gc.freeze()  # as the daemon does
    return [*after_a_week(say), *at_rest(say), *wide(say), *deleting(say)]


def lab_in(folder):
    lab = Lab(Path(folder), policy=DEFAULT_POLICY)
    pace = LoopConfig(plan_every_s=10, poll_tables_every_s=60)
    lab.config = lab.config.model_copy(update={"loop": pace})
    return lab


def cpu(action, times=1):
    """Seconds of CPU time that an action takes."""
    started = time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - started) / times


def memory_mib():
    return psutil.Process().memory_info().rss / MIB


def promised(name, value, unit, limit):
    """A row that is held against a promise."""
    return row(f"capacity: {name}", value, unit, limit, limit / value)


def planned(name, *, rests=False):
    """How an ordinary table is told after its round."""
    return seen.TablePlanned(
        TableId(f"uuid of {name}", name), snapshots=WEEK, metadata_bytes=1, partitions=100, hot=10, due=1,
        unsupported=0, waiting=0, quarantined=0, score=0.5, files_per_partition=9, backlog_files=9, backlog_bytes=9,
        oldest_due_at_ms=None, halted=False, paused=False, last_event_at_ms=1, rests=rests,
    )  # fmt: skip


def scrape_s(active, resting):
    metrics = Metrics(now_ms, "bench")
    for number in range(active + resting):
        metrics(planned(f"shop.t{number}", rests=number >= active))
    return cpu(lambda: generate_latest(metrics.registry), 3)


# --- 1,000 tables at a commit a minute, after a week ------------------------------------------------------------


def after_a_week(say):
    name = f"{TABLES:,} tables, a commit a minute, after a week"
    with tempfile.TemporaryDirectory() as folder:
        lab = lab_in(folder)
        say(f"{REAL} tables of {WEEK:,} snapshots are made")
        size = {"files": 2000, "manifests": 20, "partitions": 200, "columns": 20, "snapshots": WEEK}
        tables = copies(lab, make(lab, "shop.t0", now_ms=now_ms(), **size), REAL)
        service = lab.service()
        service.start()
        for one in tables:
            service.follower.confirm(one.name)
        service.round()
        # What stays of a table, beside what it takes to read one.
        tracemalloc.start()
        kept = service.catalog.light(service.catalog.load(tables[0].name))
        gc.collect()
        each_mib = tracemalloc.get_traced_memory()[0] / MIB
        tracemalloc.stop()
        del kept
        say("events, looks, confirmations")
        rounds = 6
        messages = [[one.event(now_ms()) for one in tables] for _ in range(rounds)]

        def events(some):
            lab.topic.messages.extend(some)
            service.consume(service.events.poll(0))

        events_s, looks_s = [], []
        for some in messages:
            events_s.append(cpu(lambda some=some: events(some)) / REAL)
            looks_s.append(cpu(service.round) / REAL)
        bytes_each = ledger_bytes(service.fold.recorded(tables[0].uuid, tables[0].head)[0])
        process_mib = memory_mib()
        confirm_s = cpu(lambda: [service.follower.confirm(one.name) for one in tables]) / REAL
        uuid = tables[0].uuid
        whole_s = cpu(lambda: service.verdicts.decide(service.fold.table(uuid), (), whole=True), 3)
        lab.executor.stop()
    event_s, look_s = quantile(events_s, 0.5), quantile(looks_s, 0.5)
    # An expiry loads the table three times: to begin, to commit, and to see that it landed.
    expiry_s = 3 * confirm_s + whole_s
    due_every_s = Expire().every / 1000
    share = TABLES * (event_s / 60 + look_s / 60 + (confirm_s + whole_s) / 3600 + expiry_s / due_every_s)
    day_mib = bytes_each * TABLES * 24 * 60 / MIB
    return [
        promised(f"{name}: share of one core", 100 * share, "%", 100),
        times_row(f"capacity: {name}: one event", event_s),
        times_row(f"capacity: {name}: one look of a round", look_s),
        times_row(f"capacity: {name}: one confirmation", confirm_s),
        times_row(f"capacity: {name}: verdicts on the table as a whole", whole_s),
        promised(f"{name}: memory", process_mib + TABLES * each_mib, "MiB", MEMORY_MIB),
        promised(f"{name}: a scrape", scrape_s(TABLES, 0) * 1000, "ms", SCRAPE_MS),
        row(f"capacity: {name}: the ledger grows by", day_mib, "MiB a day"),
        row("capacity: the ledger is never larger than", MAX_BYTES / MIB, "MiB"),
    ]


def ledger_bytes(change):
    """What a snapshot takes in the ledger: its account, and what it did."""
    ledger = Ledger(None)
    empty = ledger.size_bytes
    for number in range(COUNTED):
        one = replace(change, snapshot_id=10**15 + number, sequence_number=number)
        ledger.account(
            "a uuid of thirty-six characters, say",
            [Account(one.snapshot_id, number, "foreign", 1, 1, 1, True)],
        )
        ledger.record("a uuid of thirty-six characters, say", [(one, 1)])
    size = ledger.size_bytes - empty
    ledger.close()
    return size / COUNTED


# --- 10,000 tables of which 9,000 rest --------------------------------------------------------------------------


def at_rest(say):
    name = f"{KNOWN:,} tables, of which {KNOWN - ACTIVE:,} rest"
    with tempfile.TemporaryDirectory() as folder:
        lab = lab_in(folder)
        service = lab.service()
        service.start()
        say(f"{KNOWN:,} tables are put into the fold")
        at_ms, every_ms = service.now_ms(), 60_000
        with service.fold.transaction():
            for number in range(KNOWN):
                put(service, number, at_ms)
        say("rounds")
        service.fold.db.execute("UPDATE tables SET touched = 0, anew_after = NULL")
        begin_s = cpu(lambda: service.fold.agenda(at_ms, every_ms), 5)
        asked = sum(asked_in(service, at_ms, minute, every_ms) for minute in range(60))
        real = make(lab, "shop.real", now_ms=at_ms, files=100, manifests=1, partitions=10, snapshots=100)
        confirm_s = cpu(lambda: service.follower.confirm(real.name), 10)
        memory = memory_mib()
        lab.executor.stop()
    share = asked / 3600 * confirm_s + 5 * begin_s / 10
    return [
        promised(f"{name}: share of one core for looking where nobody speaks", 100 * share, "%", 20),
        row(f"capacity: {name}: confirmations", asked / 60, "a minute", KNOWN, KNOWN / (asked / 60)),
        times_row(f"capacity: {name}: the agenda of a round", begin_s),
        promised(f"{name}: memory", memory, "MiB", MEMORY_MIB),
        promised(f"{name}: a scrape", scrape_s(ACTIVE, KNOWN - ACTIVE) * 1000, "ms", SCRAPE_MS),
        times_row(f"capacity: {name}: a scrape if all had series", scrape_s(KNOWN, 0)),
    ]


def put(service, number, at_ms):
    """A table as a round has left it: confirmed within the last hour, written now or days ago."""
    table = TableId(f"uuid-{number}", f"shop.t{number}")
    is_active = number < ACTIVE
    changed_ms = at_ms - (b.MINUTE if is_active else 2 * b.DAY + number * b.MINUTE)
    facts = replace(b.facts(), confirmed_at_ms=at_ms - number % 60 * b.MINUTE)
    partitions = {b.key(hour): b.partition(3, b.MIB) for hour in range(10)}
    service.fold.replace(
        b.table_state(table=table), facts, partitions, b.snapshots(20, newest_at_ms=changed_ms)
    )
    if is_active:
        service.fold.note_events({table.uuid: at_ms})


def asked_in(service, at_ms, minute, every_ms):
    """How many tables are to be confirmed in a minute, with events for those that have any; then they are."""
    now = at_ms + minute * b.MINUTE
    service.fold.note_events({f"uuid-{number}": now for number in range(ACTIVE)})
    asked = service.fold.agenda(now, every_ms)
    service.fold.db.executemany(
        "UPDATE tables SET confirmed_at_ms = ? WHERE uuid = ?", [(now, uuid) for uuid in asked]
    )
    return len(asked)


# --- one table of 1,000,000 partitions --------------------------------------------------------------------------


class MadeUp(dict):
    """So many partitions, each made when it is asked for."""

    def __init__(self, count, newest, at_ms):
        self.count, self.newest, self.at_ms = count, newest, at_ms

    def items(self):
        for place in range(self.count):
            written_ms = self.at_ms - place * b.HOUR
            yield b.key(self.newest - place), b.partition(place % 150 + 1, b.MIB, last_write_at_ms=written_ms)


def wide(say):
    name = f"one table of {PARTITIONS:,} partitions"
    with tempfile.TemporaryDirectory() as folder:
        lab = lab_in(folder)
        service = lab.service()
        service.start()
        at_ms = service.now_ms()
        newest = at_ms // b.HOUR
        say(f"{PARTITIONS:,} partitions are put into the fold")
        totals = {FileKind.DATA: FileStats(1, 1, 1)}
        state = b.table_state(boundary_ms=newest * b.HOUR, partitions=PARTITIONS, totals=totals)
        facts = replace(b.facts(), confirmed_at_ms=at_ms)
        stored_s = cpu(lambda: service.fold.replace(state, facts, MadeUp(PARTITIONS, newest, at_ms), ()))
        uuid = state.table.uuid
        say(f"{SLICES} slices of verdicts")
        slices = [cpu(lambda: service.verdicts.decide(service.fold.table(uuid), ())) for _ in range(SLICES)]
        touched = [b.key(newest - place) for place in range(0, 100, 10)]
        events = []
        for _ in range(9):
            service.fold.touch(uuid, touched)
            events.append(cpu(lambda: service.verdicts.decide(service.fold.table(uuid), (), in_round=False)))
        decided = service.verdicts.decide(service.fold.table(uuid), ())
        report_s = cpu(lambda: service.verdicts.report(service.fold.table(uuid), decided))
        anew_s = cpu(lambda: service.fold.touch(uuid, None))
        memory = memory_mib()
        lab.executor.stop()
    some = len(decided.view.partitions)
    return [
        promised(
            f"{name}: the longest step of the loop", max([*slices, report_s, anew_s]) * 1000, "ms", STEP_MS
        ),
        row(f"capacity: {name}: verdicts", some / quantile(slices, 0.5), "per s"),
        times_row(f"capacity: {name}: all to be decided again", anew_s),
        times_row(f"capacity: {name}: verdicts after an event of ten of them", quantile(events, 0.5)),
        times_row(f"capacity: {name}: how it stands, for metrics", report_s),
        row(f"capacity: {name}: stored after a full scan", PARTITIONS / stored_s, "per s"),
        promised(f"{name}: memory", memory, "MiB", MEMORY_MIB),
    ]


# --- ten files deleted for each one committed -------------------------------------------------------------------


def deleting(say):
    name = f"{FILES:,} marked files"
    needed = 10 * TABLES / 60
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.db")
        say(f"{FILES:,} files are marked, confirmed and told as deleted")
        marks = [Mark(path(number), "job", Cause.EXPIRED, Seen(7, 7)) for number in range(FILES)]
        steps = [
            timed(lambda at=at: ledger.mark("u", "job", marks[at : at + MARKED_AT_ONCE], 1))
            for at in range(0, FILES, MARKED_AT_ONCE)
        ]
        steps.append(timed(lambda: ledger.confirm_marks("job", 2)))
        more = []
        while True:
            steps.append(timed(lambda: more.append(ledger.settle_marks())))
            if not more[-1]:
                break
        size_mib = ledger.size_bytes / MIB
        begun = time.process_time()
        for _ in range(20):
            some = ledger.due_deletions("u", 3, 2000)
            steps.append(timed(lambda some=some: ledger.deleted("u", [one.path for one in some], 3)))
        ledger_per_s = 20 * 2000 / (time.process_time() - begun)
        steps.append(timed(lambda: ledger.prune(10**12)))
        ledger.close()
    with tempfile.TemporaryDirectory() as folder:
        swept_s, turns = swept(lab_in(folder), say)
    with tempfile.TemporaryDirectory() as folder:
        proof_s, proof_cpu_s, deletion_s = proved(lab_in(folder), WEEK, say)
    # What an expiry of the default policy leaves of each commit: ten data files, a manifest list and a manifest.
    commits = Expire().every // b.MINUTE
    sweep_s = proof_s + 12 * commits * deletion_s / SWEPT
    week = f"a table after a week, {REQUEST_S * 1000:.0f} ms a request"
    return [
        promised(f"{name}: the longest step of the loop", max(steps) * 1000, "ms", STEP_MS),
        row(f"capacity: {name}: the ledger holds them in", size_mib, "MiB"),
        row("capacity: files told as deleted", ledger_per_s, "per s", needed, ledger_per_s / needed),
        row(f"capacity: {week}: the proof", proof_s, "s"),
        row(f"capacity: {week}: the proof, CPU time", proof_cpu_s, "s"),
        row(f"capacity: {week}: files deleted, beside the proof", SWEPT / deletion_s, "per s"),
        row(f"capacity: {week}: such tables that one daemon deletes for", commits * 60 / sweep_s, "tables"),
        row(
            "capacity: ten files deleted for each one committed, proved and deleted", 10 * commits / sweep_s, "per s",
            needed, 10 * commits / sweep_s / needed,
        ),
        row("capacity: the same of three snapshots on a local disk", ON_DISK / swept_s, "per s"),
        promised("ten files deleted for each one committed: the longest turn", max(turns) * 1000, "ms", STEP_MS),
    ]  # fmt: skip


def path(number):
    return (
        f"s3://warehouse/shop.db/orders/data/at_hour=2025-11-24-{number % 24:02d}/{number:08d}-00001.parquet"
    )


def timed(action, clock=time.process_time):
    """CPU time, as everywhere: what the disk takes to sync belongs to the machine."""
    started = clock()
    action()
    return clock() - started


def swept(lab, say):
    """Files of an expiry, with the table around them: how long until all are proved to be needed by nobody, and gone."""
    lab.config = lab.config.model_copy(
        update={"loop": LoopConfig(plan_every_s=1e-9, poll_tables_every_s=3600)}
    )
    table = lab.create()
    for hour in (1, 2, 3):
        lab.append(table, hour)
    service = lab.service()
    service.start()
    service.round()
    say(f"{ON_DISK:,} files are deleted")
    folder = Path(table.location().removeprefix("file://")) / "data" / "old"
    folder.mkdir(parents=True)
    head = table.refresh().current_snapshot()
    anchor = Seen(head.snapshot_id, head.sequence_number)
    files = [folder / f"{number:08d}.parquet" for number in range(ON_DISK)]
    for file in files:
        file.touch()
    marks = [Mark(f"file://{file}", "job", Cause.EXPIRED, anchor) for file in files]
    uuid = str(table.metadata.table_uuid)
    service.ledger.mark(uuid, "job", marks, 1, due_at_ms=2)
    turns = []
    begun = time.perf_counter()
    while service.ledger.deletions(uuid).get("waiting"):
        # The proof has a thread of its own.
        turns.append(timed(lambda: service.step(0), time.thread_time))
        wait_for_children(service)
        if len(turns) > 500:
            raise AssertionError(json.dumps(service.ledger.deletions(uuid)))
    took = time.perf_counter() - begun
    if any(file.exists() for file in files):
        raise AssertionError("files that are told as deleted are there")
    service.stop()
    lab.executor.stop()
    return took, turns
