"""What many tables cost: batches of small ones, a minute in which nothing comes, and a table with a long past."""

import statistics
import time
import uuid
from functools import partial
from pathlib import Path

from ingesting import (
    ROUNDS,
    bench,
    family_used_s,
    ingest_and_announce,
    median,
    send_rows,
    sources_of,
    stream,
)
from measure import row
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import SnapshotLogEntry

TABLES = (1, 10, 100, 200)
ROWS_A_TABLE = 50
MANY, OF_MANY = 1_000, 50
WEEK = 10_080
"""Commits of a week, one a minute."""
WEEK_BATCHES = (50, 10_000)
IDLE_TOPICS, IDLE_TURNS = 200, 50
IDLE_MINUTES = 3


def benchmarks(say):
    with bench() as stand:
        return [
            *small_tables(stand, say),
            *idle_turns(stand, say),
            *long_past(stand, say),
            *many_tables(stand, say),
        ]


def small_tables(stand, say):
    """A minute's batch of some tables; half of them have no rows in it."""
    rows = []
    for mode in ("changelog", "mirror"):
        for count in TABLES:
            say(f"{count} tables, half of them idle, {ROWS_A_TABLE} rows for each other, {mode}")
            lab = stand.lab(mode)
            sources = sources_of(f"t{number}" for number in range(count))
            lab.make_topics(*(source.table for source in sources))
            send_rows(lab, sources, 1, 0)
            ingest_and_announce(lab)
            taken = batches(stand, lab, sources[: max(count // 2, 1)])
            lab.close()
            rows.append(row(f"ingest: a minute of {count} small tables, {mode}", median(taken), "CPU-s"))
    return rows


def batches(stand, lab, sources):
    """CPU seconds of some batches of a few rows for each of some tables."""
    taken = []
    for lap in range(1, ROUNDS + 1):
        send_rows(lab, sources, ROWS_A_TABLE, lap)
        taken.append(stand.cpu_s(partial(ingest_and_announce, lab)))
    return taken


def many_tables(stand, say):
    """A thousand tables: a batch of some of them, and minutes in which nothing comes."""
    say(f"{MANY:,} tables, of which {OF_MANY} have rows")
    lab = stand.lab_of(stream("changelog"))
    sources = sources_of(f"t{number:04}" for number in range(MANY))
    lab.make_topics(*(source.table for source in sources))
    send_rows(lab, sources, 1, 0)
    ingest_and_announce(lab)
    taken = batches(stand, lab, sources[:: MANY // OF_MANY])
    look_s = stand.cpu_s(lab.announce)
    return [
        row(f"ingest: a minute of {MANY:,} tables, {OF_MANY} of them with rows", median(taken), "CPU-s"),
        row(f"ingest: looking at all of {MANY:,} tables for commits of others", look_s, "CPU-s"),
        *idle_minutes(stand, lab, say),
    ]


def idle_minutes(stand, lab, say):
    """The process of ingest itself, once it has taken the tables over.

    Its looks at all tables for commits of others are rare, and may fall into none of the minutes.
    """
    say(f"{IDLE_MINUTES} minutes in which nothing comes, {MANY:,} tables")
    process = stand.start_ingest(lab, every="1m")
    try:
        minutes = []
        for _ in range(IDLE_MINUTES):
            before = family_used_s(process.pid)
            time.sleep(60)
            process.check()
            minutes.append(family_used_s(process.pid) - before)
        say(f"CPU seconds of each minute: {', '.join(f'{one:.2f}' for one in minutes)}")
    finally:
        process.stop(120)
    return [row(f"ingest: an idle minute with {MANY:,} tables", statistics.median(minutes), "CPU-s")]


def idle_turns(stand, say):
    say(f"turns in which nothing is due, {IDLE_TOPICS} topics of 6 partitions")
    lab = stand.lab("changelog")
    lab.make_topics(*(f"t{number}" for number in range(IDLE_TOPICS)), partitions=6)
    lab.driver.turn(time.monotonic())

    def turns():
        for _ in range(IDLE_TURNS):
            lab.driver.turn(time.monotonic())

    taken = [stand.cpu_s(turns) / IDLE_TURNS for _ in range(ROUNDS)]
    lab.close()
    return [
        row(f"ingest: a turn in which nothing is due, {IDLE_TOPICS} topics", median(taken) * 1000, "CPU-ms")
    ]


def long_past(stand, say):
    """A table with a week of snapshots, one a minute, against a new one."""
    rows = []
    for mode in ("changelog", "mirror"):
        say(f"batches of {WEEK_BATCHES} rows, a table of {WEEK:,} snapshots and a new one, {mode}")
        lab = stand.lab(mode)
        new, old = sources_of(("new", "old"))
        lab.make_topics(new.table, old.table)
        send_rows(lab, (new, old), 1, 0)
        ingest_and_announce(lab)
        size = give_past(lab, f"{lab.name}.{old.table}")
        say(f"its metadata has {size / 1e6:.1f} MB")
        lab.again()
        for count in WEEK_BATCHES:
            taken = {"new": [], "old": []}
            for lap in range(1, ROUNDS + 1):
                for source in (new, old):
                    send_rows(lab, (source,), count, lap)
                    taken[source.table].append(stand.cpu_s(partial(ingest_and_announce, lab)))
            week, fresh = median(taken["old"]), median(taken["new"])
            name = f"ingest: a batch of {count:,} rows, {WEEK:,} snapshots against a new table, {mode}"
            rows.append(row(name, week, "CPU-s", fresh, fresh / week))
        lab.close()
    return rows


def give_past(lab, name):
    """Have a table of one snapshot look as if it had been committed to each minute of a week; gives its bytes.

    The one snapshot stays the newest, the others are like it, under other ids.
    """
    now = lab.lake.load(name)
    (head,) = now.table.metadata.snapshots
    first_ms = head.timestamp_ms - WEEK * 60_000
    past = [
        head.model_copy(
            update={
                "snapshot_id": 10**15 + number,
                "parent_snapshot_id": 10**15 + number - 1 if number else None,
                "sequence_number": number + 1,
                "timestamp_ms": first_ms + number * 60_000,
            }
        )
        for number in range(WEEK - 1)
    ]
    head = head.model_copy(update={"parent_snapshot_id": past[-1].snapshot_id, "sequence_number": WEEK})
    snapshots = [*past, head]
    metadata = now.table.metadata.model_copy(
        update={
            "snapshots": snapshots,
            "last_sequence_number": WEEK,
            "snapshot_log": [
                SnapshotLogEntry(snapshot_id=one.snapshot_id, timestamp_ms=one.timestamp_ms)
                for one in snapshots
            ],
            "refs": {"main": SnapshotRef(snapshot_id=head.snapshot_id, snapshot_ref_type="branch")},
        }
    )
    location = f"{now.table.location()}/metadata/{WEEK:05}-{uuid.uuid4()}.metadata.json"
    ToOutputFile.table_metadata(metadata, now.table.io.new_output(location))
    lab.lake.catalog.drop_table(name)
    lab.lake.catalog.register_table(name, location)
    return Path(location.removeprefix("file://")).stat().st_size
