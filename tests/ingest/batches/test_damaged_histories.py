"""One damage in each history, on the real planner: no row comes twice, and what is missing in the end was told."""

import random

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from support.examples import examples
from support.messages import SCHEMA, Message
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline

TABLE = "shop.all"
LATER = "shop.public.later"
SHARED = CONFIG.replace("shop.{table}", f'{TABLE}", mode: changelog, on_hole: "halt')


class History:
    """A table of several topics, which begin sooner or later; and what was sent, by when."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.pipeline = Pipeline(SHARED.replace("messages: 4", f"messages: {1 + seed % 7}"))
        self.sent, self.next = [], {}

    def send(self):
        topic, partition = self.dice.choice([ORDERS, CUSTOMERS, LATER]), self.dice.randrange(2)
        offset = self.next.get((topic, partition), 0)
        self.next[topic, partition] = offset + 1
        schema = self.dice.choice([SCHEMA, SCHEMA, SCHEMA, 0])
        self.pipeline.send(Message(topic, offset, partition, schema=schema))
        if schema:
            self.sent.append((topic, partition, offset))

    def step(self):
        """Failures, restarts and turns, as every day has them."""
        pipeline = self.pipeline
        match self.dice.randrange(6):
            case 0:
                pipeline.errors[TABLE] = OSError("its store is away")
            case 1:
                pipeline.errors.clear()
            case 2:
                pipeline.start()
            case _:
                pipeline.now_s += self.dice.choice([1, 30, 200])
                pipeline.turn()

    def damage(self):
        """Gives whether something may be missing now."""
        table = self.pipeline.lake.tables.get(TABLE)
        match self.dice.choice(["expiry", "drop", "rollback", "retention"]):
            case "expiry" if table is not None and table.has:
                table.has, table.ids, table.is_cut = {}, {}, True
            case "drop" if table is not None:
                del self.pipeline.lake.tables[TABLE]
                return True
            case "rollback" if table is not None:
                table.rows, table.has, table.ids = [], {}, {}
                return True
            case "retention" if self.next:
                position = self.dice.choice(sorted(self.next))
                below = self.dice.randrange(self.next[position] + 1)
                return self.retain(position, below)
        return False

    def retain(self, position, below):
        """A topic that ingest has not heard of yet loses nothing that anybody missed."""
        is_heard_of = self.pipeline.sample("unread_messages", topic=position[0]) is not None
        if not is_heard_of or below == self.next[position]:
            return False
        self.pipeline.broker.kept_from[position] = below
        kafka = self.pipeline.session.kafka
        kafka[:] = [one for one in kafka if (one.topic, one.partition) != position or one.offset >= below]
        return True


@examples(100)
@given(st.integers(0, 10**9))
def test_no_row_comes_twice_and_what_is_missing_was_told(seed):
    history = History(seed)
    pipeline, dice = history.pipeline, history.dice
    steps = dice.randrange(3, 14)
    damaged_at, is_damaged = dice.randrange(steps), False
    with capture_logs() as said:
        for step in range(steps):
            for _ in range(dice.randrange(5)):
                history.send()
            if step == damaged_at:
                is_damaged = history.damage()
            history.step()
        pipeline.errors.clear()
        pipeline.outbox.noticed = {TABLE}
        for _ in range(4):
            pipeline.now_s += 130
            pipeline.minute()
        pipeline.start(SHARED.replace("halt", dice.choice(["backfill", "accept"])))
        for _ in range(4):
            pipeline.now_s += 130
            pipeline.minute()
        pipeline.driver.stop()

    table = pipeline.lake.tables.get(TABLE)
    rows = [] if table is None else table.rows
    told = [one for one in said if one["event"] == "changes_missing" or "lacks changes" in str(one)]
    assert len(rows) == len(set(rows))
    assert set(rows) == set(history.sent) or told
    assert is_damaged or not told
