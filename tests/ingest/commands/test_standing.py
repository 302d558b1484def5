"""How a table stands: what a driver that began now would say of it, without one."""

from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.announce.pending import Watermark
from isotherm_ingest.commands.dead_letters import Letter, Letters
from isotherm_ingest.commands.standing import Seen, standing
from isotherm_ingest.commands.status import judged
from isotherm_ingest.commands.status_text import as_json, summary
from isotherm_ingest.mark_text import Mark
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.definition import FIRST_PROPERTY, MODE_PROPERTY
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake
from isotherm_ingest.tables.offset_vector import Source, encode

CONFIG = """
pipeline: shop
catalog: {name: lake}
kafka: {properties: {bootstrap.servers: unused}}
streams: [{topics: "shop\\\\.[a-z]+", table: "shop.{table}", mode: changelog}]
"""
P, TOPIC, MINUTE_MS = ("shop.orders", 0), "shop.orders", 60_000
ROWS = pa.table({"id": pa.array([1], pa.int64())})


@dataclass
class World:
    """One table, one partition of its topic, and what the marks say of them."""

    lake: Lake
    starts: dict = field(default_factory=lambda: {P: 0})
    ends: dict = field(default_factory=lambda: {P: 10})
    marks: dict = field(default_factory=dict)
    watermarks: dict = field(default_factory=dict)
    old_below: int = 0
    """Messages below this offset have waited for long."""
    later_ms: int = 0
    config: str = CONFIG

    def commit(self, offset, **more):
        self.table().append(
            ROWS,
            snapshot_properties={
                INGEST_PIPELINE: "shop",
                INGEST_TOKEN: encode(Source({TOPIC: {0: offset}}, "", {TOPIC: "i"})),
            }
            | more,
        )

    def table(self):
        return self.lake.catalog.load_table("shop.orders")

    def announce(self):
        now = self.lake.load("shop.orders")
        self.watermarks = {
            now.uuid: ("shop.orders", Watermark(now.head, now.snapshots[now.head].sequence_number))
        }

    def mark(self, through, had, reached, **more):
        uuid = more.pop("uuid", None) or self.lake.load("shop.orders").uuid
        self.marks = {P: Mark(through, "i", {"shop.orders": (uuid, had, reached)}, **more)}

    def seen(self):
        now_ms = max((one.timestamp_ms for one in self.table().metadata.snapshots), default=0) + 1
        return Seen(
            parse_yaml(self.config, "streams.yaml", StreamsConfig),
            Kafka(self.starts, self.ends, {TOPIC: "i"}, asked_ms=now_ms),
            dict.fromkeys(self.ends, self.old_below if self.old_below < 10 else -1),
            self.marks,
            self.watermarks,
            now_ms + self.later_ms,
            15 * MINUTE_MS,
        )

    def standing(self):
        return standing("shop.orders", self.lake.load("shop.orders"), self.seen())


@pytest.fixture
def world(tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    lake = Lake("lake", properties)
    lake.catalog.create_namespace("shop")
    said = {PIPELINE_PROPERTY: "shop", MODE_PROPERTY: "changelog", FIRST_PROPERTY: TOPIC}
    lake.catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType())), properties=said)
    return World(lake)


def test_a_table_that_has_all_is_fine(world):
    world.commit(10)
    world.mark(10, 10, 10)
    world.announce()
    found = world.standing()

    assert (found.state, found.waiting, found.troubles, found.unannounced) == ("fine", {TOPIC: 0}, (), 0)
    assert found.committed_ms == world.table().current_snapshot().timestamp_ms


def test_what_waits_is_counted_from_where_the_table_goes_on(world):
    """Dead letters and tombstones behind its vector were seen through: only the mark says so."""
    world.commit(4)
    world.mark(7, 4, 7)
    found = world.standing()

    assert (found.state, found.waiting, found.passed, found.troubles) == ("waits", {TOPIC: 3}, 0, ())


def test_what_the_topic_was_read_past_without_the_table_is_told(world):
    world.commit(4)
    world.mark(9, 4, 4)
    found = world.standing()

    assert (found.state, found.waiting, found.passed, found.troubles) == ("behind", {TOPIC: 6}, 5, ())


@pytest.mark.parametrize(
    ("old_below", "later_ms", "is_told"), [(6, 0, False), (0, 1, False), (5, 1, True), (10, 1, True)]
)
def test_messages_that_wait_for_long_are_told_where_nothing_was_committed_for_as_long(
    world, old_below, later_ms, is_told
):
    """A table that commits is being brought up; one with old commits may have been quiet."""
    world.commit(4)
    world.mark(4, 4, 4)
    world.old_below, world.later_ms = old_below, later_ms * 16 * MINUTE_MS
    world.announce()

    assert any("is a driver running?" in why for why in world.standing().troubles) == is_told


def test_messages_that_have_waited_for_less_are_not_told(world):
    world.commit(4)
    world.mark(4, 4, 4)
    world.old_below, world.later_ms = 4, 16 * MINUTE_MS
    world.announce()

    assert world.standing().troubles == ()


@pytest.mark.parametrize(("start", "used", "is_told"), [(0, 0.0, False), (1, 6 / 9, False), (3, 6 / 7, True)])
def test_retention_that_comes_near_is_told(world, start, used, is_told):
    """Nobody can say how soon something is lost of what begins at 0."""
    world.commit(4)
    world.mark(4, 4, 4)
    world.starts = {P: start}
    found = world.standing()

    assert found.retention_used == pytest.approx(used)
    assert bool(found.troubles) == is_told


@pytest.mark.parametrize(
    ("has", "mark", "start", "why"), [(4, 9, 0, "table_rolled_back"), (4, 4, 5, "retention")]
)
def test_a_table_that_a_driver_would_halt_is_halted(world, has, mark, start, why):
    world.commit(has)
    world.mark(mark, mark, mark)
    world.starts = {P: start}
    found = world.standing()

    assert (found.state, len(found.holes)) == ("halted", 1)
    assert why in found.troubles[0]


def test_what_a_stream_fills_or_accepts_is_told_and_asks_for_nobody(world):
    world.config = CONFIG.replace("mode: changelog", "mode: changelog, on_hole: backfill")
    world.commit(4)
    world.mark(9, 9, 9)
    found = world.standing()

    assert (found.state, len(found.holes), found.troubles, found.waiting) == ("behind", 1, (), {TOPIC: 6})


def test_a_table_that_marks_call_halted_stays_so_until_somebody_decides(world):
    world.commit(9)
    world.mark(9, 9, 9, halted=frozenset({"shop.orders"}))

    assert world.standing().state == "halted"


def test_a_table_that_was_dropped_lacks_what_the_marks_say(world):
    world.mark(9, 9, 9)
    seen = world.seen()
    found = standing("shop.orders", None, seen)

    assert (found.state, found.committed_ms) == ("halted", None)
    assert "table_made_again" in found.troubles[0]


def test_a_name_that_nothing_is_known_of_is_no_table(world):
    assert standing("shop.orders", None, world.seen()) is None


def test_another_s_rows_are_refused(world):
    world.table().append(ROWS)
    world.table().append(ROWS)
    with world.table().transaction() as change:
        change.remove_properties(PIPELINE_PROPERTY)
    world.mark(9, None, 9, uuid="-")
    found = world.standing()

    assert (found.state, "could double its rows" in found.troubles[0]) == ("refused", True)


def test_a_table_of_another_mode_is_refused(world):
    world.commit(10)
    world.mark(10, 10, 10)
    with world.table().transaction() as change:
        change.set_properties({MODE_PROPERTY: "mirror"})
    found = world.standing()

    assert (found.state, found.waiting) == ("refused", {TOPIC: 0})


def test_a_token_that_nobody_can_read_is_refused(world):
    world.commit(10)
    world.commit(10, **{INGEST_TOKEN: "nonsense"})

    assert world.standing().state == "refused"


def test_a_table_that_cannot_be_read_says_what_the_marks_know(world):
    world.mark(9, 4, 4)
    found = standing("shop.orders", RuntimeError("no metadata"), world.seen())

    assert (found.state, found.waiting, found.troubles[0]) == (
        "unreadable",
        {TOPIC: 6},
        "cannot be read: no metadata",
    )


def test_a_table_of_no_stream_is_nobody_s_trouble(world):
    world.commit(4)
    world.config = CONFIG.replace("[a-z]+", "others")
    found = world.standing()

    assert (found.state, found.troubles) == ("unclaimed", ())


@pytest.mark.parametrize(("minutes", "is_told"), [(0, False), (16, True)])
def test_snapshots_that_nobody_announced_are_counted_and_told_once_they_are_old(world, minutes, is_told):
    world.commit(9)
    world.announce()
    world.commit(10)
    world.mark(10, 10, 10)
    world.later_ms = minutes * MINUTE_MS
    found = world.standing()

    assert (found.unannounced, bool(found.troubles)) == (1, is_told)


def letter(offset, reason, sent_ms, topic=TOPIC):
    return Letter(topic, 0, offset, "2024", reason, sent_ms)


def test_dead_letters_count_for_the_tables_of_their_topic_and_ask_for_somebody_for_a_day(world):
    world.commit(10)
    world.mark(10, 10, 10)
    world.announce()
    seen = world.seen()
    old_ms, day_ms = seen.now_ms - 25 * 3_600_000, seen.now_ms - 23 * 3_600_000
    tables = {"shop.orders": world.lake.load("shop.orders")}
    old = judged(seen, tables, Letters((letter(1, "no_schema", old_ms),), 1, 1))
    new = judged(seen, tables, Letters((letter(1, "no_schema", old_ms), letter(2, "no_row", day_ms)), 2, 9))

    assert (old.tables[0].dead_letters, old.troubles) == ({"no_schema": 1}, [])
    assert new.tables[0].dead_letters == {"no_row": 1, "no_schema": 1}
    assert [why for _, why in new.troubles] == [
        "dead letters of the last day: 1 no_row; the newest came 23 h ago"
    ]
    assert summary(old) == "1 table: all is well; 0 messages wait, 1 dead letter"
    assert (
        summary(new) == "1 table: 1 needs a person; 0 messages wait, 2 dead letters among the 2 newest of 9"
    )
    assert as_json(new)["needs_a_person"]


def test_a_topic_without_a_table_is_told_with_what_waits_and_its_dead_letters(world):
    world.ends = {P: 10, ("shop.lines", 0): 7, ("shop.seen", 0): 3}
    world.starts = dict.fromkeys(world.ends, 0)
    world.commit(10)
    world.mark(10, 10, 10)
    world.marks[("shop.seen", 0)] = Mark(3, "i")
    world.announce()
    seen = world.seen()
    letters = Letters((letter(1, "no_schema", 0, "shop.lines"),), 1, 1)
    found = judged(seen, {"shop.orders": world.lake.load("shop.orders")}, letters)

    assert [(one.topic, one.waiting, one.dead_letters) for one in found.new_topics] == [
        ("shop.lines", 7, {"no_schema": 1})
    ]
    assert found.troubles == []
    world.old_below = 3
    found = judged(world.seen(), {}, letters)
    assert "no table has been made of it" in dict(found.troubles)["shop.lines"]
    assert "shop.seen" not in dict(found.troubles)


def test_who_needs_a_person_comes_first_and_then_who_waits_most(world):
    world.ends = {(f"shop.{name}", 0): 10 for name in ("orders", "b", "c")}
    world.starts = dict.fromkeys(world.ends, 0)
    world.commit(10)
    world.mark(10, 10, 10)
    for name, through in (("b", 9), ("c", 3)):
        world.marks[(f"shop.{name}", 0)] = Mark(through, "", {f"shop.{name}": ("", None, through)})
    world.announce()
    tables = {
        "shop.b": None,
        "shop.c": None,
        "shop.orders": world.lake.load("shop.orders"),
        "shop.x": OSError("away"),
    }
    found = judged(world.seen(), tables, Letters((), 0, 0))

    assert [one.table for one in found.tables] == ["shop.x", "shop.c", "shop.b", "shop.orders"]


def test_a_topic_of_which_there_is_nothing_but_new_dead_letters_needs_a_person(world):
    world.commit(10)
    world.mark(10, 10, 10)
    world.announce()
    world.ends |= {("shop.lines", 0): 3}
    world.starts |= {("shop.lines", 0): 0}
    world.marks[("shop.lines", 0)] = Mark(3, "i")
    seen = world.seen()
    letters = Letters((letter(1, "no_schema", seen.now_ms - 60_000, "shop.lines"),), 1, 1)
    found = judged(seen, {"shop.orders": world.lake.load("shop.orders")}, letters)

    assert [subject for subject, _ in found.troubles] == ["shop.lines"]


def test_dead_letters_of_which_none_could_be_looked_at_need_a_person(world):
    world.commit(10)
    world.mark(10, 10, 10)
    world.announce()
    tables = {"shop.orders": world.lake.load("shop.orders")}

    assert [one for one, _ in judged(world.seen(), tables, Letters((), 0, 57)).troubles] == ["dead letters"]
    assert judged(world.seen(), tables, Letters((), 0, 0)).troubles == []
