"""Time-partitioned tables that are only appended to. Each history is a function of its length and, where it draws, a seed."""

from collections import Counter
from datetime import UTC, datetime
from random import Random

from support.builders import DAY, HOUR, KIB, MIB, MINUTE
from workloads.writing import DAYS, HOURS, MONTHS, START, YEARS, Writer, every, old, wrote

LATE_FROM_MS = 30 * MINUTE
LATE_SHAPE = 1.2
"""A Pareto tail: of the late rows 44 % are later than an hour, 2.8 % than ten, 0.2 % than a hundred."""


def pareto_hours(random, at_ms, count):
    """The hours to which so many late batches of rows belong."""
    return [int(at_ms - LATE_FROM_MS * random.paretovariate(LATE_SHAPE)) // HOUR for _ in range(count)]


def written_late(writes, hours, size=20 * KIB):
    """What is written, and beside it a small file for each hour that late rows belong to."""
    for hour, count in Counter(hours).items():
        writes.setdefault(hour, wrote(count, size))
    return writes


def hourly(days=10):
    """One file of 1 MiB a minute into the present hour; no row is late."""
    writer = Writer(HOURS)
    for at_ms in every(MINUTE, days):
        writer.commit(at_ms, {at_ms // HOUR: wrote(1, MIB)}, through_ms=at_ms)
    return writer.history(days)


def hourly_late(days=10, seed=2):
    """As `hourly`, and two small files a minute of rows whose delay has a Pareto tail."""
    writer, random = Writer(HOURS), Random(seed)
    for at_ms in every(MINUTE, days):
        writes = written_late({at_ms // HOUR: wrote(1, MIB)}, pareto_hours(random, at_ms, 2))
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def hourly_slow(days=10, seed=3):
    """A commit every five minutes: 1 MiB into the present hour, and two small files of late rows."""
    writer, random = Writer(HOURS), Random(seed)
    for at_ms in every(5 * MINUTE, days):
        writes = written_late({at_ms // HOUR: wrote(1, MIB)}, pareto_hours(random, at_ms, 2))
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def hourly_big(days=10, seed=4):
    """Three files of 40 MiB a minute, 7 GiB an hour; every third minute a small file of late rows."""
    writer, random = Writer(HOURS), Random(seed)
    for number, at_ms in enumerate(every(MINUTE, days)):
        late = pareto_hours(random, at_ms, 1) if number % 3 == 0 else []
        writes = written_late({at_ms // HOUR: wrote(3, 40 * MIB)}, late)
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def two_writers(days=10):
    """Two files of 1 MiB a minute into the present hour, and one by a second writer, which is five hours late."""
    writer = Writer(HOURS)
    for at_ms in every(MINUTE, days):
        late_ms = at_ms - 5 * HOUR
        writer.commit(at_ms, {at_ms // HOUR: wrote(2, MIB), late_ms // HOUR: wrote(1, MIB)}, through_ms=at_ms)
    return writer.history(days)


def sensors(days=14, seed=5):
    """Hourly, 2 MiB a minute; one row in a hundred is very late, evenly over five days: three files a minute."""
    writer, random = Writer(HOURS), Random(seed)
    for at_ms in every(MINUTE, days):
        late = [(at_ms - random.randrange(5 * DAY)) // HOUR for _ in range(3)]
        writes = written_late({at_ms // HOUR: wrote(1, 2 * MIB)}, late, size=7 * KIB)
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def old_table(days=3, partitions=20_000):
    """As `hourly`, on a table of 20,000 hours that were compacted long ago (a million, reduced)."""
    newest = START // HOUR
    before = {newest - number: old(1, 60 * MIB) for number in range(1, partitions + 1)}
    writer = Writer(HOURS, before=before)
    for at_ms in every(MINUTE, days):
        writer.commit(at_ms, {at_ms // HOUR: wrote(1, MIB)}, through_ms=at_ms)
    return writer.history(days)


def daily(days=14):
    """Two files of 1 MiB a minute into the present day, by a writer that says nothing of event time."""
    writer = Writer(DAYS, is_ingest=False)
    for at_ms in every(MINUTE, days):
        writer.commit(at_ms, {at_ms // DAY: wrote(2, MIB)})
    return writer.history(days)


def stream_ends(days=30):
    """As `daily`, for a seventh of the time; then nothing is ever written again."""
    writer = Writer(DAYS, is_ingest=False)
    for at_ms in every(MINUTE, days / 7):
        writer.commit(at_ms, {at_ms // DAY: wrote(2, MIB)})
    return writer.history(days)


def office_hours(days=21):
    """Daily partitions, a file of 2 MiB every two minutes from Monday to Friday, 8 to 20 o'clock."""
    writer = Writer(DAYS, is_ingest=False)
    for at_ms in every(2 * MINUTE, days):
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        if at.weekday() < 5 and 8 <= at.hour < 20:
            writer.commit(at_ms, {at_ms // DAY: wrote(1, 2 * MIB)})
    return writer.history(days)


def nightly_batch(days=60):
    """At three in the morning forty files of 2 MiB for the day before, in one commit."""
    writer = Writer(DAYS, is_ingest=False)
    for at_ms in every(DAY, days, START + 3 * HOUR):
        writer.commit(at_ms, {at_ms // DAY - 1: wrote(40, 2 * MIB)})
    return writer.history(days)


def well_sized_batch(days=30):
    """At three in the morning twelve files of 70 MiB for the day before: little is gained by rewriting them."""
    writer = Writer(DAYS, is_ingest=False)
    for at_ms in every(DAY, days, START + 3 * HOUR):
        writer.commit(at_ms, {at_ms // DAY - 1: wrote(12, 70 * MIB)})
    return writer.history(days)


def backfill(days=3, back=365):
    """A year of days is written in ten hours, in 24 passes of four files of 24 MiB a day; 2 MiB a minute go into today."""
    writer, today = Writer(DAYS), START // DAY
    steps = 24 * back
    for number, at_ms in enumerate(every(MINUTE, days)):
        first, last = (min(steps * place // 600, steps) for place in (number, number + 1))
        writes = {today - 1 - step % back: wrote(4, 24 * MIB) for step in range(first, last)}
        writes[at_ms // DAY] = wrote(1, 2 * MIB)
        writer.commit(at_ms, writes, through_ms=at_ms)
    return writer.history(days)


def monthly(days=120):
    """A file of 1 MiB every ten minutes into the present month, by a writer that says nothing of event time."""
    writer = Writer(MONTHS, is_ingest=False)
    for at_ms in every(10 * MINUTE, days):
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        writer.commit(at_ms, {(at.year - 1970) * 12 + at.month - 1: wrote(1, MIB)})
    return writer.history(days)


def monthly_nightly(days=120, seed=11):
    """At three in the morning, or up to a quarter of an hour later, five files of 6 MiB into the present month."""
    writer, random = Writer(MONTHS, is_ingest=False), Random(seed)
    for night_ms in every(DAY, days, START + 3 * HOUR):
        at_ms = night_ms + random.randrange(15 * MINUTE)
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        writer.commit(at_ms, {(at.year - 1970) * 12 + at.month - 1: wrote(5, 6 * MIB)})
    return writer.history(days)


def monthly_in_two(days=120, seed=12):
    """The same in two commits, the second ten to twenty minutes later: a load, and what is merged or checked after it."""
    writer, random = Writer(MONTHS, is_ingest=False), Random(seed)
    for night_ms in every(DAY, days, START + 3 * HOUR):
        first_ms = night_ms + random.randrange(15 * MINUTE)
        for at_ms, count in ((first_ms, 4), (first_ms + random.randrange(10 * MINUTE, 20 * MINUTE), 1)):
            at = datetime.fromtimestamp(at_ms / 1000, UTC)
            writer.commit(at_ms, {(at.year - 1970) * 12 + at.month - 1: wrote(count, 6 * MIB)})
    return writer.history(days)


def log(days=20, size=MIB, apart_ms=MINUTE):
    """A file a minute into a table without partitions, by a writer that says nothing of event time."""
    writer = Writer((), is_ingest=False)
    for at_ms in every(apart_ms, days):
        writer.commit(at_ms, {None: wrote(1, size)})
    return writer.history(days)


def yearly(days=800):
    """A file of 1 MiB every two hours into the present year, by a writer that says nothing of event time."""
    writer = Writer(YEARS, is_ingest=False)
    for at_ms in every(2 * HOUR, days):
        writer.commit(at_ms, {datetime.fromtimestamp(at_ms / 1000, UTC).year - 1970: wrote(1, MIB)})
    return writer.history(days)
