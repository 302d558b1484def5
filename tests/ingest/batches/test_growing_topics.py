"""Topics that grow: a key moves to a new partition, and its older changes, in a lower one, are always written before."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from support.examples import examples
from support.messages import Message, envelope
from support.pipelines import CONFIG, ORDERS, Pipeline, messages

TOPIC = "shop.public.shared"
SCHEMAS = {"a": 11, "b": 12, "c": 13}
SHARED = CONFIG.replace('table: "shop.{table}"', 'table: "shop.{table}", mode: changelog')


def change(table, partition, offset):
    return Message(TOPIC, offset, partition, schema=SCHEMAS[table], value=envelope(table, ("id", "int64")))


def is_before(pipeline, *older_and_newer):
    rows = pipeline.lake.tables["shop.orders"].rows
    older, newer = (rows.index((ORDERS, partition, offset)) for partition, offset in older_and_newer)
    return older < newer


@pytest.mark.parametrize("what", ["it goes on", "it begins again", "its marks are lost"])
def test_no_new_partition_opens_while_an_old_one_has_no_leader(pipeline, what):
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1))
    pipeline.minute()
    pipeline.broker.empty = {(ORDERS, 2), (ORDERS, 3)}
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1), *messages(ORDERS, 0, partition=2))
    pipeline.broker.without_leader = {(ORDERS, 0)}
    if what == "its marks are lost":
        pipeline.store.clear()
    if what != "it goes on":
        pipeline.start()
    pipeline.minute()
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.minute()
    pipeline.minute()

    assert is_before(pipeline, (0, 1), (2, 0))


@pytest.mark.parametrize("is_noticed", [False, True])
@pytest.mark.parametrize("what", ["dropped", "rolled back"])
def test_a_new_partition_is_written_after_what_a_table_is_found_to_lack_of_an_old_one(what, is_noticed):
    """The batch that opens it holds nothing of the old one, and the look at the table finds the hole."""
    pipeline = Pipeline(CONFIG.replace('table}"', 'table}", mode: changelog, on_hole: backfill'))
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    pipeline.minute()
    pipeline.broker.empty = {(ORDERS, 1)}
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 0, partition=1))
    if what == "dropped":
        del pipeline.lake.tables["shop.orders"]
    else:
        table = pipeline.lake.tables["shop.orders"]
        table.has = {(ORDERS, 0): 0}
        table.rows.clear()
    if is_noticed:
        pipeline.outbox.noticed = {"shop.orders"}
    for _ in range(8):
        pipeline.now_s += 60
        pipeline.turn()

    assert pipeline.lake.tables["shop.orders"].rows == [
        (ORDERS, 0, 0),
        (ORDERS, 0, 1),
        (ORDERS, 0, 2),
        (ORDERS, 1, 0),
    ]


def test_a_new_partition_waits_for_a_lower_new_one_that_has_no_leader(pipeline):
    """From two partitions to eight by way of four: a key of 1 is in 3 then, and in 7."""
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1))
    pipeline.minute()
    pipeline.broker.empty = {(ORDERS, number) for number in range(2, 8)}
    pipeline.minute()
    pipeline.broker.without_leader = {(ORDERS, 3)}
    pipeline.send(*messages(ORDERS, 0, partition=3), *messages(ORDERS, 0, partition=7))
    pipeline.minute()
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.minute()
    pipeline.minute()

    assert is_before(pipeline, (3, 0), (7, 0))


def test_a_table_that_is_behind_waits_with_a_new_partition_for_an_old_one_without_leader(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 0, partition=1))
    for _ in range(3):
        pipeline.now_s += 300
        pipeline.minute()
    pipeline.errors.clear()
    pipeline.broker.without_leader = {(ORDERS, 0)}
    pipeline.now_s += 300
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.recovers()

    assert is_before(pipeline, (0, 2), (1, 0))


@pytest.mark.parametrize("grows_in", ["one_go", "a_backlog"])
def test_partitions_between_which_keys_move_are_not_read_together(grows_in):
    """A batch takes the change with the highest offset for the newest of a key."""
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 20"))
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1))
    pipeline.minute()
    if grows_in == "a_backlog":
        pipeline.send(*messages(ORDERS, *range(1, 200)), *messages(ORDERS, 0, partition=2))
        pipeline.now_s += 60
        pipeline.turn()
    pipeline.send(*messages(ORDERS, 0, 1, 2, 3, partition=3), *messages(ORDERS, 0, partition=7))
    for _ in range(4):
        pipeline.minute()

    assert is_before(pipeline, (3, 3), (7, 0))
    for batch in pipeline.lake.tables["shop.orders"].batches:
        assert not {3, 7} <= {partition for _, partition, _ in batch}


@pytest.mark.parametrize("turn_s", [2, 61])
def test_a_new_table_of_a_topic_gets_all_partitions_though_the_lowest_goes_on_for_ever(turn_s):
    pipeline = Pipeline(SHARED.replace("messages: 4", "messages: 100"))
    pipeline.send(*(change("a", partition, offset) for partition in (0, 1) for offset in range(5)))
    pipeline.minute()
    pipeline.send(*(change("b", 1, offset) for offset in range(5, 25)))
    for offset in range(5, 60):
        pipeline.send(change("a", 0, offset))
        pipeline.now_s += turn_s
        pipeline.turn()

    assert len(pipeline.lake.tables["shop.b"].rows) == 20


@pytest.mark.parametrize("what", ["it goes on", "it begins again", "its marks are lost"])
@pytest.mark.parametrize("is_passed_by", [False, True])
def test_a_table_that_is_behind_in_an_old_partition_gets_no_new_one_before_whatever_others_get(
    what, is_passed_by
):
    pipeline, ends = Pipeline(SHARED), Counter()

    def send(table, partition):
        one = change(table, partition, ends[partition])
        ends[partition] += 1
        pipeline.send(one)
        return one.topic, one.partition, one.offset

    send("a", 0), send("b", 0)
    pipeline.minute()
    pipeline.errors["shop.b"] = OSError("broken")
    send("b", 0)
    pipeline.minute()
    for _ in range(40):
        send("a", 0)
    older = send("b", 0)
    for _ in range(6):
        pipeline.minute()
    pipeline.broker.empty = {(TOPIC, 1)}
    pipeline.minute()
    send("a", 1)
    newer = None if is_passed_by else send("b", 1)
    if not is_passed_by:
        pipeline.minute()
    pipeline.errors.clear()
    if what == "its marks are lost":
        pipeline.store.clear()
    if what != "it goes on":
        pipeline.start()
    pipeline.now_s += 300
    pipeline.turn()
    newer = newer or send("b", 1)
    pipeline.recovers()

    rows = pipeline.lake.tables["shop.b"].rows
    assert rows.index(older) < rows.index(newer)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_new_partition_that_lost_its_beginning_to_retention_waits_all_the_same(is_restarted):
    pipeline = Pipeline(CONFIG.replace('table}"', 'table}", on_hole: accept'))
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(1, 40)), *messages(ORDERS, *range(6), partition=1))
    pipeline.now_s += 60
    pipeline.turn()
    pipeline.broker.kept_from[ORDERS, 1] = 3
    with capture_logs() as said:
        pipeline.turn()
        if is_restarted:
            pipeline.start()
        pipeline.minute()
        pipeline.recovers()

    assert is_before(pipeline, (0, 39), (1, 5))
    assert [one["table"] for one in said if one["event"] == "changes_missing"] == ["shop.orders"]


class Crash(BaseException):
    """A process that ends where it stands."""


class Story:
    """A topic that is doubled once or twice while all kinds of things happen, and what was sent to it."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        batch = self.dice.choice([1, 2, 3, 7, 100])
        self.pipeline = Pipeline(SHARED.replace("messages: 4", f"messages: {batch}"))
        self.partitions = self.to = self.dice.choice([1, 2, 3])
        self.grown, self.ends, self.sent = 0, Counter(), {}
        self.pipeline.broker.empty = self.all()

    def all(self):
        return {(TOPIC, number) for number in range(self.partitions)}

    def send(self, key):
        table = self.dice.choice("abc")
        partition = (key * 7 + 3) % self.to
        offset = self.ends[partition]
        self.ends[partition] += 1
        if self.dice.random() < 0.15:
            self.pipeline.send(Message(TOPIC, offset, partition, schema=0))
        else:
            self.sent[TOPIC, partition, offset] = len(self.sent), key, table
            self.pipeline.send(change(table, partition, offset))

    def happens(self):
        dice, pipeline = self.dice, self.pipeline
        match dice.randrange(12):
            case 0 if self.grown < 2:
                self.partitions, self.grown = self.partitions * 2, self.grown + 1
                pipeline.broker.empty |= self.all()
            case 1:  # the producer hears of it
                self.to = min(self.partitions, self.to * 2)
            case 2:
                pipeline.errors[f"shop.{dice.choice('abc')}"] = OSError("broken")
            case 3:
                pipeline.errors.clear()
            case 4:
                pipeline.start()
            case 5:
                pipeline.broker.without_leader = {one for one in sorted(self.all()) if dice.random() < 0.4}
            case 6:
                pipeline.broker.without_leader = set()
            case 7:
                self.crashes_at_a_mark(dice.randrange(3))
            case _:
                pipeline.now_s += dice.choice([1, 10, 30, 60, 200])
                self.turns(pipeline.turn)

    def crashes_at_a_mark(self, after):
        marks = self.pipeline.marks  # a crash comes between any two steps
        write, left = marks.write, [after]

        def crashing(new):
            left[0] -= bool(new)
            if left[0] < 0 and new:
                raise Crash
            yield from write(new)

        marks.write = crashing

    def turns(self, turn):
        try:
            turn()
        except Crash:
            self.pipeline.start()

    def ends_well(self):
        self.pipeline.broker.without_leader = set()
        for _ in range(3):
            self.turns(self.pipeline.recovers)
        self.pipeline.driver.stop()


@pytest.mark.parametrize("is_listed", [True, False], ids=["seen before it grew again", "never seen"])
@pytest.mark.parametrize("restarts", [True, False], ids=["and again", "one driver"])
def test_a_new_partition_that_never_had_a_leader_is_read_before_newer_ones(is_listed, restarts):
    """It may hold an older change of a key than those behind it, though Kafka tells no end of it."""
    pipeline = Pipeline(CONFIG)
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.broker.empty = {(ORDERS, 0), (ORDERS, 1)}
    pipeline.broker.without_leader = {(ORDERS, 1)}
    pipeline.send(*messages(ORDERS, 0, partition=1))
    if is_listed:
        pipeline.minute()
        pipeline.minute()
    if restarts:
        pipeline.start()
    pipeline.broker.empty = {(ORDERS, number) for number in range(4)}
    pipeline.send(*messages(ORDERS, 0, partition=3))
    pipeline.minute()
    pipeline.minute()
    before = len(pipeline.lake.tables["shop.orders"].rows)
    pipeline.broker.without_leader = set()
    for _ in range(4):
        pipeline.minute()

    assert (before, [one[1] for one in pipeline.lake.tables["shop.orders"].rows]) == (1, [0, 1, 3])


@examples(100)
@given(st.integers(0, 10**9))
def test_whatever_happens_the_changes_of_a_key_are_written_in_their_order(seed):
    story = Story(seed)
    for key in range(12):
        story.send(key)
    story.pipeline.minute()
    for _ in range(story.dice.randrange(6, 30)):
        for _ in range(story.dice.randrange(4)):
            story.send(story.dice.randrange(12))
        story.happens()
    story.ends_well()

    tables = {name.removeprefix("shop."): table for name, table in story.pipeline.lake.tables.items()}
    for name in "abc":
        sent = sorted(one for one, (_, _, table) in story.sent.items() if table == name)
        assert sorted(tables[name].rows if name in tables else []) == sent
    for table in tables.values():
        last = Counter()
        for batch in table.batches:
            by_key = {}
            for position in batch:
                number, key, _ = story.sent[position]
                by_key.setdefault(key, []).append((position[2], number))
            for key, changes in by_key.items():
                numbers = [number for _, number in changes]
                assert max(changes)[1] == max(numbers)
                assert min(numbers) >= last[key]
                last[key] = max(numbers)
