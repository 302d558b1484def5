"""Tables and policies as hypothesis draws them, for the laws of the planner."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import strategies as st

from isotherm.contract.events import Intent, OpenWindow
from isotherm.core.appends import Appends, Arrival
from isotherm.core.lateness import UNTAUGHT, Age, Lateness
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import RefEnd, Unpublished
from isotherm.core.model.writers import Word
from isotherm.core.partition_state import PartitionState
from isotherm.core.policy.policy import Policy
from isotherm.core.visits import NO_VISITS
from support.builders import DAY, HOUR, KIB, MIB, MINUTE, NOW, facts, files, key, snapshots, table_state, view

# Strategies are made here, once: making them at each draw took hypothesis longer than drawing.
SIZES = st.dictionaries(
    st.sampled_from([KIB, MIB, 50 * MIB, 96 * MIB, 128 * MIB, 300 * MIB]), st.integers(1, 120)
)
DELETES = st.dictionaries(
    st.sampled_from([FileKind.POSITION_DELETES, FileKind.DELETION_VECTORS, FileKind.EQUALITY_DELETES]),
    st.integers(1, 5000),
)
VERSIONS = st.sampled_from([2, 3])
DELETE_ROW_BYTES = st.sampled_from([10, MIB])
LAST_DAYS = st.integers(NOW - 2 * DAY, NOW + HOUR)
WRITTEN = st.one_of(LAST_DAYS, LAST_DAYS, st.integers(NOW - 9 * DAY, NOW - 4 * DAY))
"""Some of it within the last week, and some before: it settles then."""
COMPACTED = st.one_of(st.none(), LAST_DAYS)
COMMITS = st.integers(0, 100)
SPANS = st.lists(st.integers(1, 40 * MINUTE), max_size=5)


@st.composite
def partition_states(draw):
    data = {}
    for size, count in draw(SIZES).items():
        data |= files(count, size)
    written_ms = draw(WRITTEN)
    deletes, row_bytes = draw(DELETES), draw(DELETE_ROW_BYTES)
    return PartitionState(
        data=data,
        deletes={kind: FileStats(1 + rows // 100, rows, row_bytes * rows) for kind, rows in deletes.items()},
        last_write_at_ms=written_ms,
        last_write_number=draw(COMMITS),
        compacted_at_ms=draw(COMPACTED),
        stamped_at_ms=draw(STAMPED),
        arrivals=arrivals(draw(SPANS), data, written_ms),
    )


def arrivals(spans, data, written_ms):
    """Some of a partition's files came lately, one batch of them after another."""
    times = [written_ms - sum(spans[place:]) for place in range(len(spans) + 1)]
    parts = max(len(spans), 1)
    came = {
        bucket: FileStats(s.files // parts, s.rows // parts, s.bytes // parts) for bucket, s in data.items()
    }
    return tuple(
        Arrival(begin_ms, before_ms, 10 * number, came)
        for number, (before_ms, begin_ms) in enumerate(pairwise(times), start=1)
    )


STAMPED = st.one_of(st.none(), st.integers(NOW - HOUR, NOW + 2 * DAY))
PARTITION = partition_states()
KEYS = st.lists(st.integers(0, 1200), unique=True, max_size=6)
BOUNDARIES = st.one_of(st.none(), st.integers(0, 1300 * HOUR))
PAST_MOST = st.one_of(BOUNDARIES, st.sampled_from([1201 * HOUR, 1210 * HOUR, 1300 * HOUR]))
APPENDS = st.builds(Appends, st.integers(15, 40), st.one_of(st.none(), st.integers(NOW - DAY, NOW + HOUR)))
SNAPSHOTS = st.integers(0, 40)
METADATA_BYTES = st.integers(0, 64 * MIB)
MANIFESTS = st.integers(0, 500)
ANNOUNCED = st.one_of(st.none(), SNAPSHOTS)
UNPUBLISHED = st.lists(
    st.builds(Unpublished, st.just("a branch goes on"), st.integers(NOW - 2 * DAY, NOW + HOUR)), max_size=1
).map(tuple)
REF_ENDS = st.lists(st.builds(RefEnd, st.just("q3"), st.integers(NOW - DAY, NOW + DAY)), max_size=1).map(
    tuple
)
LAST_DONE = st.dictionaries(st.just(Action.EXPIRE), st.integers(NOW - HOUR, NOW + HOUR), max_size=1)


@st.composite
def worlds(draw):
    keys = draw(KEYS)
    state = table_state(boundary_ms=draw(BOUNDARIES), appends=draw(APPENDS), sequence_number=100)
    return view(
        {key(value): draw(PARTITION) for value in keys},
        state=state,
        snapshots=snapshots(draw(SNAPSHOTS)),
        facts=facts(
            format_version=draw(VERSIONS),
            metadata_file_bytes=draw(METADATA_BYTES),
            manifests=draw(MANIFESTS),
            unpublished=draw(UNPUBLISHED),
            ref_ends=draw(REF_ENDS),
        ),
        announced_sequence_number=draw(ANNOUNCED),
        last_done_ms=draw(LAST_DONE),
    )


WORLD = worlds()
PAUSES_MS = st.lists(st.integers(5 * MINUTE, 2 * HOUR), max_size=8).map(tuple)
GAPS_MS = st.lists(
    st.one_of(st.integers(MINUTE, HOUR), st.integers(2 * HOUR, 5 * HOUR), st.integers(8 * HOUR, 2 * DAY)),
    max_size=20,
)


@st.composite
def visits(draw):
    """What is remembered of writers who came at some times, the last one lately."""
    at_ms, known = draw(LAST_DAYS), NO_VISITS
    gaps_ms = draw(GAPS_MS)
    at_ms -= sum(gaps_ms)
    for gap_ms in gaps_ms:
        known = known.after(at_ms)
        at_ms += gap_ms
    return known


VISITS = visits()
SINCE = st.one_of(st.none(), st.integers(NOW - 3 * DAY, NOW + HOUR))


COUNTED = st.integers(0, 200)
RETURNS = st.sampled_from([200, 3, 0])
AGES = st.lists(
    st.builds(Age, st.sampled_from([HOUR, 5 * HOUR, DAY]), RETURNS, st.integers(0, 5), LAST_DAYS),
    min_size=11,
    max_size=12,
)
LATENESS = st.one_of(
    st.just(UNTAUGHT),
    st.builds(
        Lateness,
        ages=AGES.map(tuple),
        since_ms=st.integers(NOW - 90 * DAY, NOW),
        updated_at_ms=st.just(NOW),
        files=st.integers(40, 2000),
        late=st.lists(COUNTED, max_size=12).map(tuple),
        from_ms=st.integers(0, 1200 * HOUR),
    ),
)
UNTIL = st.integers(NOW - HOUR, NOW + 3 * HOUR)
NAMED = st.one_of(st.none(), st.lists(st.integers(0, 1200).map(key), max_size=4).map(tuple))
INTENTS = st.one_of(st.just([]), st.just([]), st.lists(st.tuples(LAST_DAYS, UNTIL, NAMED), max_size=2))
WINDOWS = st.one_of(st.none(), st.integers(0, 1300 * HOUR))
WORDS = st.one_of(st.just([]), st.lists(st.tuples(LAST_DAYS, WINDOWS, NAMED, st.booleans()), max_size=2))


@st.composite
def maintained(draw):
    """Worlds in which we have worked before: writers come back as they did, say what they mean to do, and came late."""
    world = draw(WORLD)
    partitions = {
        where: replace(state, compacted_at_ms=draw(SINCE), pauses_ms=draw(PAUSES_MS), visits=draw(VISITS))
        for where, state in world.partitions.items()
    }
    around = replace(
        world.around,
        state=replace(world.around.state, lateness=draw(LATENESS), boundary_ms=draw(PAST_MOST)),
        intents=tuple(intent(number, *one) for number, one in enumerate(draw(INTENTS))),
        words=tuple(
            Word(f"writer {number}", at_ms, OpenWindow(from_ms=from_ms, partitions=named or ()), announces)
            for number, (at_ms, from_ms, named, announces) in enumerate(draw(WORDS))
        ),
    )
    return replace(world, partitions=partitions, around=around)


def intent(number, at_ms, expires_at_ms, named):
    """What a writer means to write."""
    return Intent(
        table_uuid="u",
        table="shop.orders",
        intent_id=str(number),
        writer=f"writer {number}",
        state="open",
        at_ms=at_ms,
        expires_at_ms=expires_at_ms,
        partitions=named,
    )


HOURS = st.lists(
    st.tuples(st.integers(0, 23), st.sampled_from([None, ["expire"], ["compact", "rewrite_manifests"]])),
    max_size=2,
)
SCHEDULED = st.lists(st.tuples(st.integers(0, 23), st.floats(0.01, 1)), max_size=2)
MINUTES = st.integers(0, 40).map("{}m".format)
OF_COLD = st.fixed_dictionaries(
    {
        "after": st.sampled_from(["learned", 0, 1, 2, 3, "90m"]),
        "quiet_commits": st.integers(0, 20),
        "quiet_for": st.sampled_from(["0s", "15m", "3h"]),
        "late_write_risk": st.sampled_from([0.05, 0.001, 1]),
    }
)
OF_COMPACT = st.fixed_dictionaries(
    {
        "min_files": st.one_of(st.just("learned"), st.integers(2, 60)),
        "minor_after": st.sampled_from([None, "0s", "12h"]),
        "max_delete_ratio": st.floats(0.01, 2),
        "max_position_deletes": st.one_of(st.just("learned"), st.integers(1, 60)),
        "max_equality_deletes": st.integers(1, 60),
        "max_deletion_vectors": st.one_of(st.none(), st.integers(1, 60)),
    }
)
OF_EXPIRE = st.fixed_dictionaries(
    {
        "keep_for": MINUTES,
        "keep_last": st.integers(1, 30),
        "at_once": st.integers(1, 12),
        "at_latest": MINUTES,
        "every": st.integers(0, 60).map("{}m".format),
    }
)
MIN_MANIFESTS = st.integers(2, 200)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"])
BYTES_PER_HOUR = st.one_of(st.none(), st.integers(0, 10**10))


@st.composite
def policies(draw):
    """Policies with every kind of limit, window and schedule."""
    hours = draw(HOURS)
    schedules = [
        {"cron": f"0 {hour} * * *", "lasts": "3h", "do": ["compact", "expire"], "from_score": score}
        for hour, score in draw(SCHEDULED)
    ]
    return Policy.model_validate(
        {
            "cold": draw(OF_COLD),
            "compact": draw(OF_COMPACT),
            "expire": draw(OF_EXPIRE),
            "manifests": {"min_count": draw(MIN_MANIFESTS)},
            "work": {
                "tz": draw(ZONES),
                "windows": [
                    {"cron": f"30 {hour} * * *", "lasts": "2h", **({"do": do} if do else {})}
                    for hour, do in hours
                ],
                "schedules": schedules,
                "bytes_per_hour": draw(BYTES_PER_HOUR),
            },
        }
    )
