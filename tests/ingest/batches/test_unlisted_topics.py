"""What is known of a table in a topic that a driver cannot see at first, or sees beside marks of one that is gone."""

from collections import Counter
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from isotherm_ingest.failures import TableRefused
from support.messages import Message, envelope
from support.pipelines import CONFIG, Pipeline

FIRST, SECOND = "shop.public.s1", "shop.public.s2"
SCHEMAS = {"a": 11, "b": 12}


class Killed(BaseException):
    """The driver ends here."""


def configured(on_hole):
    return CONFIG.replace(
        'table: "shop.{table}"', f'table: "shop.{{table}}", mode: changelog, on_hole: {on_hole}'
    )


def change(topic, offset, table, partition=0):
    return Message(topic, offset, partition, schema=SCHEMAS[table], value=envelope(table, ("id", "int64")))


def later(pipeline, minutes=4):
    for _ in range(minutes):
        pipeline.now_s += 130
        pipeline.minute()


def token_expires(pipeline, name):
    """As Iceberg's own expiry does it: with the snapshot, and nothing is kept."""
    table = pipeline.lake.tables[name]
    table.has, table.ids, table.is_cut = {}, {}, True


def retention_takes(pipeline, topic, start):
    pipeline.broker.kept_from[topic, 0] = start
    kafka = pipeline.session.kafka
    kafka[:] = [one for one in kafka if one.topic != topic or one.offset >= start]


def holes_of(said, table):
    return [one["hole"] for one in said if one["event"] == "changes_missing" and one["table"] == table]


@pytest.mark.parametrize("comes", [False, True])
@pytest.mark.parametrize("on_hole", ["halt", "backfill", "accept"])
def test_a_topic_that_is_listed_later_goes_on_where_its_marks_say(on_hole, comes):
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(change(FIRST, 0, "b"), *(change(SECOND, offset, "b") for offset in range(3)))
    later(pipeline, 2)
    token_expires(pipeline, "shop.b")
    pipeline.broker.unlisted = {SECOND}
    with capture_logs() as said:
        pipeline.start()
        pipeline.minute()
        pipeline.broker.unlisted = set()
        later(pipeline, 1)
        if comes:
            pipeline.send(change(SECOND, 3, "b"))
        later(pipeline)

    assert Counter(pipeline.lake.tables["shop.b"].rows) == Counter(
        [(FIRST, 0, 0), *((SECOND, 0, offset) for offset in range(3 + comes))]
    )
    assert holes_of(said, "shop.b") == []


@pytest.mark.parametrize("marks_lost", [False, True])
@pytest.mark.parametrize("hidden", ["nothing", "the topic", "the table"])
def test_what_retention_takes_of_a_table_that_is_behind_halts_it_whatever_was_hidden_at_first(
    hidden, marks_lost
):
    pipeline = Pipeline(configured("halt"))
    first = SECOND if hidden == "the table" else FIRST
    pipeline.send(change(first, 0, "b"), change(SECOND, 0 if first == FIRST else 1, "b"))
    pipeline.send(change(SECOND, 2, "a"))
    pipeline.minute()
    pipeline.errors["shop.b"] = OSError("its store is away")
    pipeline.send(change(SECOND, 3, "b"), *(change(SECOND, offset, "a") for offset in range(4, 10)))
    pipeline.minute()
    retention_takes(pipeline, SECOND, 5)
    if marks_lost:
        pipeline.store.clear()
    pipeline.broker.unlisted = {SECOND} if hidden == "the topic" else set()
    pipeline.lake.unreadable = {"shop.b"} if hidden == "the table" else set()
    pipeline.errors.clear()
    pipeline.start()
    pipeline.minute()
    pipeline.broker.unlisted = pipeline.lake.unreadable = set()
    later(pipeline, 1)
    pipeline.send(change(SECOND, 10, "b"))
    later(pipeline)

    assert pipeline.is_left_out("b")
    assert max(offset for _, _, offset in pipeline.lake.tables["shop.b"].rows) < 3


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("old", ["a", "b"])
@pytest.mark.parametrize("on_hole", ["backfill", "accept"])
def test_marks_of_a_topic_that_is_gone_say_nothing_beside_those_of_the_one_that_has_its_name(
    on_hole, old, restart
):
    """Kafka kept them, and one partition has no leader yet when the others are marked."""
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(change(FIRST, 0, "a", 1), *(change(FIRST, offset, old) for offset in range(4)))
    later(pipeline, 2)
    pipeline.session.kafka[:] = [change(FIRST, offset, "a", 1) for offset in range(3)]
    pipeline.broker.ids[FIRST] = "another id"
    pipeline.broker.empty |= {(FIRST, 0), (FIRST, 1)}
    pipeline.broker.without_leader = {(FIRST, 0)}
    later(pipeline, 3)
    pipeline.send(*(change(FIRST, offset, "a") for offset in range(2)))
    with capture_logs() as said:
        if restart:
            pipeline.start()
        pipeline.broker.without_leader = set()
        later(pipeline)

    rows = Counter(pipeline.lake.tables["shop.a"].rows)
    assert {rows[FIRST, 0, offset] for offset in range(2)} == {2 if old == "a" else 1}
    assert not [hole for hole in holes_of(said, "shop.a") if "rolled_back" in hole or "cut_back" in hole]


@pytest.mark.parametrize("on_hole", ["backfill", "accept"])
def test_a_hole_in_a_partition_without_a_message_is_told_once(on_hole):
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(change(FIRST, 0, "a"), change(FIRST, 1, "b"))
    pipeline.minute()
    pipeline.errors["shop.b"] = TableRefused("for a while")
    pipeline.broker.ids[FIRST] = "another id"
    pipeline.broker.empty |= {(FIRST, 0), (FIRST, 1)}
    pipeline.session.kafka[:] = [change(FIRST, offset, "a") for offset in range(7)]
    with capture_logs() as said:
        for turn in range(60):
            pipeline.now_s += 5
            pipeline.turn()
            if turn == 20:
                pipeline.errors.clear()

    assert Counter(holes_of(said, "shop.b")).most_common(1)[0][1] == 1


def test_what_a_halted_table_says_that_it_has_counts_once_its_token_is_gone():
    """The driver before died between the table's commit and its mark."""
    pipeline = Pipeline(configured("halt"))
    pipeline.send(change(FIRST, 0, "b"))
    pipeline.minute()
    pipeline.send(change(SECOND, 0, "b"))
    write = pipeline.marks.write

    def killed_once_it_has_it(marks):
        if marks and pipeline.lake.tables["shop.b"].has.get((SECOND, 0)):
            raise Killed
        yield from write(marks)

    pipeline.marks.write = killed_once_it_has_it
    with suppress(Killed):
        pipeline.minute()
    pipeline.driver.stop()
    pipeline.send(change(FIRST, 1, "b"), change(FIRST, 2, "b"))
    retention_takes(pipeline, FIRST, 2)
    pipeline.start()
    later(pipeline, 3)
    assert pipeline.is_left_out("b")
    token_expires(pipeline, "shop.b")
    later(pipeline, 2)
    pipeline.start(configured("accept"))
    later(pipeline)

    assert Counter(pipeline.lake.tables["shop.b"].rows) == Counter(
        [(FIRST, 0, 0), (SECOND, 0, 0), (FIRST, 0, 2)]
    )


@pytest.mark.parametrize("retention", [False, True])
@pytest.mark.parametrize("hidden", [FIRST, SECOND])
@pytest.mark.parametrize("how", ["at first", "later", "no leader"])
def test_what_a_table_that_was_made_again_lacks_of_a_topic_that_nobody_sees_is_brought_once_it_is_there(
    how, hidden, retention
):
    """No message has to come for it, and what Kafka drops before is told."""
    pipeline = Pipeline(configured("backfill"))
    pipeline.send(*(change(topic, offset, "b") for topic in (FIRST, SECOND) for offset in range(3)))
    later(pipeline, 2)
    with capture_logs() as said:
        pipeline.broker.unlisted = set() if how == "no leader" else {hidden}
        pipeline.broker.without_leader = {(hidden, 0)} if how == "no leader" else set()
        if how == "at first":
            pipeline.start()
        later(pipeline, 1)
        del pipeline.lake.tables["shop.b"]
        later(pipeline, 3)
        pipeline.send(change(SECOND if hidden == FIRST else FIRST, 3, "b"))
        later(pipeline, 3)
        if retention:
            retention_takes(pipeline, hidden, 2)
        pipeline.broker.unlisted, pipeline.broker.without_leader = set(), set()
        later(pipeline)

    rows = Counter(pipeline.lake.tables["shop.b"].rows)
    assert {one: count for one, count in rows.items() if one[0] == hidden} == {
        (hidden, 0, offset): 1 for offset in range(2 if retention else 0, 3)
    }
    assert not pipeline.is_left_out("b")
    assert any(hidden in hole for hole in holes_of(said, "shop.b")) or not retention


@pytest.mark.parametrize("deleted", [True, False])
def test_what_a_halted_table_says_of_a_topic_that_is_not_there_counts_for_no_other_of_its_name(deleted):
    pipeline = Pipeline(configured("halt"))
    pipeline.send(change(FIRST, 0, "b"), *(change(SECOND, offset, "b") for offset in range(8)))
    later(pipeline, 3)
    pipeline.driver.stop()
    pipeline.send(change(FIRST, 1, "b"), change(FIRST, 2, "b"))
    retention_takes(pipeline, FIRST, 2)
    if deleted:
        kafka = pipeline.session.kafka
        kafka[:] = [one for one in kafka if one.topic != SECOND]
        for position in [one for one in pipeline.store if one[0] == SECOND]:
            del pipeline.store[position]
    else:
        pipeline.broker.unlisted = {SECOND}
    with capture_logs() as said:
        pipeline.start()
        later(pipeline, 2)
        assert pipeline.is_left_out("b")
        pipeline.broker.unlisted = set()
        if deleted:
            pipeline.broker.ids[SECOND] = "another id"
            pipeline.send(*(change(SECOND, offset, "a") for offset in range(3)))
        else:
            pipeline.send(change(SECOND, 8, "a"))
        later(pipeline)

    assert [offset for _, _, offset in pipeline.lake.tables["shop.a"].rows] == ([0, 1, 2] if deleted else [8])
    assert not pipeline.is_left_out("a")
    assert not [one for one in said if one["event"] == "topic_cut_back"]


def test_what_a_table_was_seen_through_to_counts_though_it_was_halted_while_its_topic_was_not_listed():
    pipeline = Pipeline(configured("halt"))
    pipeline.send(change(FIRST, 0, "b"), *(change(SECOND, offset, "b") for offset in range(3)))
    later(pipeline, 2)
    pipeline.send(change(SECOND, 3, "a"), change(SECOND, 4, "a"))
    later(pipeline, 2)
    pipeline.driver.stop()
    pipeline.send(change(FIRST, 1, "b"), change(FIRST, 2, "b"))
    retention_takes(pipeline, FIRST, 2)
    pipeline.broker.unlisted = {SECOND}
    with capture_logs() as said:
        pipeline.start()
        later(pipeline, 2)
        retention_takes(pipeline, SECOND, 5)
        pipeline.send(change(SECOND, 5, "a"))
        pipeline.broker.unlisted = set()
        later(pipeline)

    assert not [
        one for one in said if SECOND in one.get("hole", "") or f"retention ({SECOND}" in one.get("error", "")
    ]


@pytest.mark.parametrize("retention", [False, True])
@pytest.mark.parametrize("hidden", [FIRST, SECOND])
@pytest.mark.parametrize("on_hole", ["backfill", "accept"])
def test_a_table_that_was_made_again_while_a_topic_was_not_listed_is_told_by_a_driver_that_begins(
    on_hole, hidden, retention
):
    """The marks of that topic name the table before it. What is told is filled, or passed over, as the stream says."""
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(*(change(topic, offset, "b") for topic in (FIRST, SECOND) for offset in range(3)))
    pipeline.send(*(change(topic, 3, "a") for topic in (FIRST, SECOND)))
    later(pipeline, 2)
    pipeline.broker.unlisted = {hidden}
    pipeline.start()
    later(pipeline, 1)
    del pipeline.lake.tables["shop.b"]
    pipeline.send(change(SECOND if hidden == FIRST else FIRST, 4, "b"))
    later(pipeline, 3)
    if retention:
        retention_takes(pipeline, hidden, 2)
    pipeline.broker.unlisted = set()
    with capture_logs() as said:
        pipeline.start()
        later(pipeline)
        pipeline.send(change(hidden, 4, "b"))
        later(pipeline)

    rows = Counter(pipeline.lake.tables["shop.b"].rows)
    kept = range(2 if retention else 0, 3) if on_hole == "backfill" else ()
    assert {one for one in rows if one[0] == hidden} == {(hidden, 0, offset) for offset in (*kept, 4)}
    assert max(rows.values()) == 1
    assert any("table_made_again" in hole and hidden in hole for hole in holes_of(said, "shop.b"))


@pytest.mark.parametrize("on_hole", ["backfill", "accept"])
@pytest.mark.parametrize("hidden", [FIRST, SECOND])
def test_what_a_table_was_seen_through_to_in_the_listed_topic_counts_whichever_topic_sorts_first(
    on_hole, hidden
):
    """The marks of the other one name the table before it, and retention passes what was none of the table's."""
    listed = SECOND if hidden == FIRST else FIRST
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(*(change(topic, offset, "b") for topic in (FIRST, SECOND) for offset in range(3)))
    later(pipeline, 2)
    pipeline.broker.unlisted = {hidden}
    pipeline.start()
    later(pipeline, 1)
    del pipeline.lake.tables["shop.b"]
    pipeline.send(change(listed, 3, "b"))
    later(pipeline, 3)
    pipeline.send(*(change(listed, offset, "a") for offset in range(4, 10)))
    later(pipeline, 3)
    retention_takes(pipeline, listed, 6)
    pipeline.broker.unlisted = set()
    with capture_logs() as said:
        pipeline.start()
        later(pipeline)
        pipeline.send(change(listed, 10, "b"), change(hidden, 3, "b"))
        later(pipeline)

    rows = Counter(pipeline.lake.tables["shop.b"].rows)
    assert not pipeline.is_left_out("b")
    assert (listed, 0, 10) in rows
    assert {offset for topic, _, offset in rows if topic == hidden} == (
        {0, 1, 2, 3} if on_hole == "backfill" else {3}
    )
    assert max(rows.values()) == 1
    assert not [hole for hole in holes_of(said, "shop.b") if listed in hole]


@pytest.mark.parametrize(("new", "old"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_that_a_table_was_halted_is_kept_with_the_table_that_is_there(new, old):
    """The mark of the other topic still names the one before it, whichever topic sorts first."""
    pipeline = Pipeline(configured("backfill"))
    pipeline.send(*(change(old, number, "b") for number in range(3)))
    pipeline.send(*(change(new, number, "b") for number in range(3)))
    later(pipeline, 2)
    pipeline.broker.unlisted = {old}
    later(pipeline, 1)
    del pipeline.lake.tables["shop.b"]
    pipeline.outbox.noticed = {"shop.b"}
    later(pipeline, 2)
    pipeline.send(*(change(new, number, "b") for number in range(3, 6)))
    later(pipeline, 2)
    table = pipeline.lake.tables["shop.b"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*(change(new, number, "b") for number in range(6, 10)))
    later(pipeline, 2)
    table.has, table.rows, table.ids = early
    pipeline.broker.unlisted = set()
    pipeline.start(configured("halt"))
    later(pipeline, 2)
    assert pipeline.is_left_out("b")

    token_expires(pipeline, "shop.b")
    pipeline.start(configured("backfill"))
    later(pipeline, 5)

    assert pipeline.is_left_out("b") or {offset for topic, _, offset in table.rows if topic == new} == {
        *range(10)
    }
    pipeline.driver.stop()


LEADERS = [
    ("leader away, then rollback", {1}),
    ("rollback, then leader away", {1}),
    ("all leaders away, and a rollback", {0, 1}),
]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("on_hole", ["halt", "backfill"])
@pytest.mark.parametrize(("order", "away"), LEADERS, ids=[order for order, _ in LEADERS])
def test_a_look_that_cannot_judge_a_hole_ends_no_halt_and_hides_no_rollback(
    on_hole, expires, restarts, order, away
):
    """The partition from which rows are gone has no leader meanwhile; then the token may go as well."""
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(*(change(FIRST, number, "b", part) for part in (0, 1) for number in range(3)))
    later(pipeline, 2)
    table = pipeline.lake.tables["shop.b"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*(change(FIRST, number, "b", 1) for number in range(3, 6)))
    later(pipeline, 2)

    def rolled_back():
        table.has, table.rows, table.ids = dict(early[0]), list(early[1]), dict(early[2])
        pipeline.outbox.noticed = {"shop.b"}

    if order.startswith("rollback"):
        rolled_back()
        later(pipeline, 2)
    pipeline.broker.without_leader = {(FIRST, part) for part in away}
    if not order.startswith("rollback"):
        rolled_back()
    later(pipeline, 3)
    if expires:
        token_expires(pipeline, "shop.b")
    if restarts:
        pipeline.start(configured(on_hole))
        later(pipeline, 1)
    pipeline.broker.without_leader = set()
    later(pipeline, 30)  # nobody sends anything

    assert pipeline.is_left_out("b") or len(set(table.rows)) == 9
    assert pipeline.is_left_out("b") or on_hole == "backfill"
    assert Counter(table.rows).most_common(1)[0][1] == 1
    pipeline.driver.stop()


def test_a_table_that_was_rolled_back_while_none_of_its_topics_was_listed_is_halted_once_they_are():
    pipeline = Pipeline(configured("halt"))
    pipeline.send(*(change(FIRST, number, "b") for number in range(3)))
    later(pipeline, 2)
    table = pipeline.lake.tables["shop.b"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*(change(FIRST, number, "b") for number in range(3, 6)))
    later(pipeline, 2)
    pipeline.broker.unlisted = {FIRST}
    later(pipeline, 1)
    table.has, table.rows, table.ids = early
    pipeline.outbox.noticed = {"shop.b"}
    later(pipeline, 2)
    token_expires(pipeline, "shop.b")
    pipeline.broker.unlisted = set()
    later(pipeline, 10)

    assert pipeline.is_left_out("b")
    pipeline.driver.stop()


@pytest.mark.parametrize(("there", "away"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_a_table_that_was_made_again_is_brought_all_topics_though_its_first_slice_held_nothing(there, away):
    """The mark of the listed topic names the new table, which has nothing of it yet; the other one the table before."""
    pipeline = Pipeline(configured("backfill"))
    pipeline.send(*(change(away, number, "b") for number in range(3)))
    pipeline.send(*(change(there, number, "a" if number < 8 else "b") for number in range(12)))
    later(pipeline, 3)
    pipeline.broker.unlisted = {away}
    later(pipeline, 2)
    del pipeline.lake.tables["shop.b"]
    pipeline.outbox.noticed = {"shop.b"}
    pipeline.now_s += 130
    pipeline.turn()
    pipeline.turn()

    pipeline.broker.unlisted = set()
    pipeline.start(configured("backfill"))
    later(pipeline, 20)

    rows = pipeline.lake.tables["shop.b"].rows
    assert (len(rows), len(set(rows))) == (7, 7)
    pipeline.driver.stop()


def test_what_was_in_doubt_of_a_topic_that_another_table_has_by_now_is_nobody_s_doubt():
    """A person has split the stream after the halt; the table is not looked at in each turn for it."""
    pipeline = Pipeline(configured("halt"))
    for topic in (FIRST, SECOND):
        pipeline.send(*(change(topic, number, "b") for number in range(3)))
    later(pipeline, 2)
    table = pipeline.lake.tables["shop.b"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*(change(FIRST, number, "b") for number in range(3, 6)))
    later(pipeline, 2)
    table.has, table.rows, table.ids = early
    pipeline.outbox.noticed = {"shop.b"}
    later(pipeline, 2)
    assert pipeline.is_left_out("b")

    one = 'table: "shop.{table}", mode: changelog, on_hole: backfill'
    split = configured("backfill").partition("streams:")[0] + (
        f"streams: [{{topics: 'shop\\.public\\.s1', {one}}}, "
        f"{{topics: 'shop\\.public\\.s2', {one.replace('shop.{', 'other.{')}}}]\n"
    )
    pipeline.start(split)
    later(pipeline, 4)
    asked = pipeline.lake.asked
    for _ in range(20):
        pipeline.now_s += 5
        pipeline.turn()

    assert pipeline.lake.asked == asked
    assert not pipeline.is_left_out("b")
    assert {offset for topic, _, offset in table.rows if topic == FIRST} == {*range(6)}
    pipeline.driver.stop()
