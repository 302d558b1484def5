"""Two drivers, any step of one between any two of the other, one ended anywhere, and topics that are cut back meanwhile."""

import random
from collections import Counter

import pytest

from support.interleaved import CONFIG, Actor, World


def living(actors):
    return [one for one in actors if not one.is_done]


ACTS = ["send", "send", "send", "time", "time", "start", "kill", "cut", *["steps"] * 20]


class Story:
    """Drivers that come and go, and a topic that grows and is cut back.

    It is cut back while one driver is there (the design says what is left), and no other begins, and the topic does not
    grow, until that has looked.
    """

    def __init__(self, dice, how):
        self.dice, self.world = dice, World(dice.choice([1, 2]))
        self.config = CONFIG % (dice.choice([2, 4, 100]), how)
        self.actors, self.unseen, self.cuts = [], {}, 0

    def go_on(self):
        self.actors = [one for one in self.actors if not one.is_done] or [Actor(self.world, self.config)]
        self.unseen = {one: was for one, was in self.unseen.items() if not self.has_looked(*was)}
        position = self.dice.choice(sorted(self.world.logs))
        match self.dice.choice(ACTS):
            case "steps":
                self.steps(self.dice.choice(self.actors), self.dice.choice([1, 1, 3, 10, 40]))
            case "send" if position not in self.unseen:
                for _ in range(self.dice.randrange(1, 5)):
                    self.world.send(position, self.dice.choice([1, 1, 2]))
            case "time":
                self.world.now_s += self.dice.choice([5, 30, 61, 200])
            case "start" if len(self.actors) < 2 and not self.unseen:
                self.actors.append(Actor(self.world, self.config))
            case "kill":
                self.dice.choice(self.actors).kill()
            case "cut" if len(self.actors) == 1 and self.world.logs[position] and self.cuts < 2:
                self.cut(position)

    def steps(self, actor, count):
        for _ in range(count):
            if not actor.is_done:
                actor.step()
        assert actor.error is None

    def cut(self, position):
        log, owner = self.world.logs[position], self.world.owner
        del log[self.dice.randrange(max(len(log) - 6, 0), len(log)) :]
        self.unseen[position] = owner, 0 if owner is None else owner.turns
        self.cuts += 1

    def has_looked(self, was, turns):
        """Whether a driver has had a whole turn since a cut: the one of then, or one that has begun later."""
        owner = self.world.owner
        return owner is not None and owner.turns >= (turns + 2 if owner is was else 1)

    def end(self):
        """One driver has all the time that it needs."""
        for one in self.actors:
            one.kill()
        last = Actor(self.world, self.config)
        for _ in range(8):
            self.world.now_s += 130
            turns = last.turns
            while not (last.turns > turns and last.is_idle):
                self.steps(last, 1)
                assert not last.is_done
        last.kill()


@pytest.mark.parametrize("how", ["backfill", "accept"])
@pytest.mark.parametrize("seed", range(15))
def test_each_message_that_kafka_has_is_once_in_its_table_however_drivers_take_turns(seed, how):
    story = Story(random.Random(f"{seed} {how}"), how)
    for _ in range(150):
        story.go_on()
    story.end()

    tables = story.world.tables
    rows = {name: Counter(one.timestamp for one in table.rows) for name, table in tables.items()}
    assert [] == [each for each in rows.values() if max(each.values(), default=1) > 1]
    here = [one for log in story.world.logs.values() for one in log]
    assert [] == [one for one in here if not rows[f"shop.of_{one.schema}"][one.timestamp]]
