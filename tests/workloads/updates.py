"""Tables whose rows are updated or deleted by MERGE-on-read, and tables without time in their partitions.

Each history is a function of its length and, where it draws, a seed.
"""

from collections import Counter
from dataclasses import replace
from random import Random

from isotherm.core.model.files import NO_FILES, FileKind, FileStats
from support.builders import DAY, HOUR, KIB, MIB, MINUTE
from workloads.writing import DAYS, START, Writer, every, field, old, wrote

AGES = 365
UPDATED = 1000
"""Rows that one update of a partition changes: they come in a data file, and a delete file takes the old ones away."""
ZIPF = 1.2


def update(count=1, rows=UPDATED):
    """So many small data files and as many small delete files."""
    return wrote(count, 200 * rows, delete_files=count, delete_rows=count * rows)


def mirror_zipf(days=10, seed=11):
    """Days of 512 MiB for a year; a commit a minute inserts 1 MiB today and updates five days, recent ones the most."""
    before = {START // DAY - age: old(4, 128 * MIB) for age in range(AGES)}
    writer, random = Writer(DAYS, before=before), Random(seed)
    weights = [1 / (age + 1) ** ZIPF for age in range(AGES)]
    for at_ms in every(MINUTE, days):
        today = at_ms // DAY
        touched = Counter(today - age for age in random.choices(range(AGES), weights, k=5))
        writes = {day: update(count) for day, count in touched.items()}
        writes.setdefault(today, wrote(1, MIB))
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def mirror_uniform(days=10, seed=12):
    """Days of 2 GiB for a year; every five minutes three of them are updated, whatever their age, and one inserted to."""
    before = {START // DAY - age: old(16, 128 * MIB) for age in range(AGES)}
    writer, random = Writer(DAYS, before=before), Random(seed)
    for at_ms in every(5 * MINUTE, days):
        today = at_ms // DAY
        writes = {today - age: update() for age in random.sample(range(AGES), 3)}
        writes.setdefault(today, wrote(1, MIB))
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def mirror_month(days=8, seed=3, kept=35):
    """Days of 512 MiB for five weeks; a commit a minute inserts 1 MiB today, every other one updates a day of the last ones."""
    before = {START // DAY - age: old(4, 128 * MIB) for age in range(1, kept)}
    writer, random = Writer(DAYS, before=before), Random(seed)
    for at_ms in every(MINUTE, days):
        today, writes = at_ms // DAY, {}
        if random.random() < 0.5:
            writes[today - min(1 + int(random.expovariate(1 / 3)), kept - 1)] = update(1, 300)
        writer.commit(at_ms, writes | {today: wrote(1, MIB)}, through_ms=at_ms)
    return writer.history(days)


def closing_orders(days=90, seed=15):
    """Days of 720 MiB in twelve batches; each batch updates some of the last thirty days as well, older ones less and less."""
    before = {START // DAY - age: old(6, 120 * MIB) for age in range(1, 31)}
    writer, random = Writer(DAYS, before=before, is_ingest=False), Random(seed)
    for at_ms in every(2 * HOUR, days):
        today = at_ms // DAY
        writes = {today - age: update(1, 100) for age in range(1, 31) if random.random() < 0.9 * 0.85**age}
        writer.commit(at_ms, writes | {today: wrote(1, 60 * MIB)})
    return writer.history(days)


def daily_load(days=30, jitter_minutes=0, seed=13):
    """An unpartitioned table of 10 GiB, loaded at two in the morning: 130 files of 3 MiB and deletes of 1.5 % of the rows.

    The load begins some minutes too early or too late, by as much as `jitter_minutes`.
    """
    writer, random = Writer((), before={None: old(80, 128 * MIB)}, is_ingest=False), Random(seed)
    rows = 80 * 128 * MIB // 200
    for at_ms in every(DAY, days, START + 2 * HOUR):
        late_ms = round(random.uniform(-jitter_minutes, jitter_minutes) * MINUTE)
        load = wrote(130, 3 * MIB, delete_files=10, delete_rows=rows * 15 // 1000)
        writer.commit(at_ms + late_ms, {None: load})
    return writer.history(days)


def daily_load_jittery(days=30):
    """As `daily_load`, ten minutes too early or too late."""
    return daily_load(days, jitter_minutes=10)


def buckets(days=4, seed=14):
    """Sixteen buckets of 1 GiB; a commit a minute updates four of them."""
    before = {bucket: old(8, 128 * MIB) for bucket in range(16)}
    writer, random = Writer(field("bucket[16]"), before=before), Random(seed)
    for at_ms in every(MINUTE, days):
        writer.commit(at_ms, {bucket: update() for bucket in random.sample(range(16), 4)}, through_ms=at_ms)
    return writer.history(days)


def large_buckets(days=4):
    """Sixteen buckets of 36 GiB; each is updated every twenty minutes, one after another."""
    before = {bucket: old(288, 128 * MIB) for bucket in range(16)}
    writer = Writer(field("bucket[16]"), before=before)
    for number, at_ms in enumerate(every(20 * MINUTE // 16, days)):
        writer.commit(at_ms, {number % 16: update()}, through_ms=at_ms)
    return writer.history(days)


def regions(days=10):
    """Four partitions without time; a batch every half hour writes two files of 5 MiB into each of them."""
    writer = Writer(field("bucket[4]"), is_ingest=False)
    for at_ms in every(30 * MINUTE, days):
        writer.commit(at_ms, {bucket: wrote(2, 5 * MIB) for bucket in range(4)})
    return writer.history(days)


def half_hourly(days=7):
    """A table without partitions; a batch every half hour writes fifty files of 16 MiB."""
    writer = Writer((), is_ingest=False)
    for at_ms in every(30 * MINUTE, days):
        writer.commit(at_ms, {None: wrote(50, 16 * MIB)})
    return writer.history(days)


def loaded_anew(days=10, apart_ms=HOUR, *, is_emptied=False):
    """A table without partitions, overwritten as a whole each hour, or so, with a hundred files of 10 MiB: a full refresh.

    In one snapshot, or emptied in one and filled half a minute later.
    """
    writer, load = Writer((), is_ingest=False), wrote(100, 10 * MIB)
    again = replace(load, data={}, removed=load.added)
    gone = replace(
        load,
        data={size: NO_FILES - files for size, files in load.data.items()},
        added=NO_FILES,
        removed=load.added,
    )
    for number, at_ms in enumerate(every(apart_ms, days)):
        if number and is_emptied:
            writer.commit(at_ms, {None: gone})
        writer.commit(at_ms + 30_000 * is_emptied, {None: again if number and not is_emptied else load})
    return writer.history(days)


def hourly_merge(days=10):
    """A table of 100 GiB without partitions; a MERGE each hour updates a million rows, in 200 data and 200 delete files."""
    writer = Writer((), before={None: old(800, 128 * MIB)})
    for at_ms in every(HOUR, days):
        write = wrote(200, MIB, delete_files=200, delete_rows=1_000_000)
        writer.commit(at_ms, {None: write}, through_ms=at_ms)
    return writer.history(days)


def fortnight(days=10):
    """Days of 512 MiB; a batch every half hour writes a file of 2 MiB into each of the last fourteen."""
    before = {START // DAY - age: old(4, 128 * MIB) for age in range(14)}
    writer = Writer(DAYS, before=before, is_ingest=False)
    for at_ms in every(30 * MINUTE, days):
        writer.commit(at_ms, {at_ms // DAY - age: wrote(1, 2 * MIB) for age in range(14)})
    return writer.history(days)


def one_delete_row(days=3):
    """Ten days of 100 GiB; an hour after the beginning 100 late files of 100 KiB and one delete row reach the oldest."""
    today = START // DAY
    before = {today - age: old(800, 128 * MIB) for age in range(1, 11)}
    writer = Writer(DAYS, before=before)
    for number, at_ms in enumerate(every(10 * MINUTE, days)):
        writes = {at_ms // DAY: wrote(1, MIB)}
        if number == 6:
            writes[today - 10] = wrote(100, 100 * KIB, delete_files=1, delete_rows=1)
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def gdpr_nightly(days=60):
    """Days of 800 MiB; each night people are forgotten: a few rows are deleted in every one of the last thirty days.

    The writer leaves a delete file for each partition, as Flink does, and Spark with `write.delete.granularity=partition`.
    """
    today = START // DAY
    before = {today - age: old(8, 100 * MIB) for age in range(2, 32)}
    writer = Writer(DAYS, before=before, is_ingest=False)
    for at_ms in every(DAY, days, START + 2 * HOUR):
        day = at_ms // DAY - 1
        writer.commit(at_ms - HOUR, {day: wrote(8, 100 * MIB)})
        forget = wrote(0, MIB, delete_files=1, delete_rows=20)
        writer.commit(at_ms, {day - age: forget for age in range(30)})
    return writer.history(days)


def gdpr_by_file(days=40):
    """Thirty days of 5 GiB; each night a DELETE of Spark's leaves one delete file for each data file, in place of the last."""
    days_of = [START // DAY - age for age in range(1, 31)]
    writer = Writer(DAYS, before={day: old(40, 128 * MIB) for day in days_of}, is_ingest=False)
    forget = wrote(0, MIB, delete_files=40, delete_rows=800)
    kept = FileStats(40, 800, 40 * KIB)
    again = replace(
        forget,
        deletes={kind: stats - replace(kept, rows=0) for kind, stats in forget.deletes.items()},
        delete_sizes={size: stats - replace(kept, rows=0) for size, stats in forget.delete_sizes.items()},
        added=forget.added + FileStats(rows=kept.rows),
        removed=kept,
    )
    for night, at_ms in enumerate(every(DAY, days, START + 2 * HOUR)):
        writer.commit(at_ms, dict.fromkeys(days_of, again if night else forget))
    return writer.history(days)


def delete_files(days=6):
    """Days of 5 GiB; each minute of a day twenty rows are deleted of the day three days before: 1,440 files."""
    today = START // DAY
    before = {today - age: old(40, 128 * MIB) for age in range(1, 11)}
    writer = Writer(DAYS, before=before)
    for number, at_ms in enumerate(every(MINUTE, days)):
        writes = {at_ms // DAY - 3: wrote(0, MIB, delete_files=1, delete_rows=20)}
        if number % 36 == 0:
            writes[at_ms // DAY] = wrote(1, 128 * MIB)
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def keyed_upserts(days=3):
    """Days, a commit a minute of a writer of keyed upserts: a data file of 1 MiB and an equality-delete file."""
    writer = Writer(DAYS)
    for at_ms in every(MINUTE, days):
        write = wrote(1, MIB, delete_files=1, delete_rows=UPDATED, kind=FileKind.EQUALITY_DELETES)
        writer.commit(at_ms, {at_ms // DAY: write}, through_ms=at_ms)
    return writer.history(days)


def keyed_deletes(days=3):
    """A bucket of 4 GiB; ten commits each hour delete a few of its rows by their keys."""
    writer = Writer(field("bucket[16]"), before={0: old(32, 128 * MIB)}, is_ingest=False)
    write = wrote(0, MIB, delete_files=1, delete_rows=10, kind=FileKind.EQUALITY_DELETES)
    for at_ms in every(HOUR, days):
        for number in range(10):
            writer.commit(at_ms + number * MINUTE, {0: write})
    return writer.history(days)
