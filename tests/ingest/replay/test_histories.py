"""Random histories of letters that are replayed in pieces, killed and begun again, held against a fold in plain Python."""

import random

import pytest

from isotherm_ingest.replay.choosing import Fate
from support.replaying import APART_MS, GOOD, HOPELESS, MENDED, CrashError, World, fold
from support.wire import PLACEHOLDER


def check(world):
    """No row is lost, doubled, or older than it may be."""
    done = world.settled()
    applied = {one.where for one in world.sent if one.op == "d" or one.at == GOOD or one.where in done}
    if world.mode == "changelog":
        assert sorted(world.log) == sorted(at[1:] for at in applied)
    else:
        rows = {}
        for one in world.sent:
            if one.op == "t":
                rows.clear()
            else:
                fold(rows, one, is_row=one.where in applied)
        assert rows == world.rows


def played(world, dice, steps):
    for _ in range(steps):
        throw = dice.random()
        if throw < 0.75:
            at = dice.choices([GOOD, MENDED, HOPELESS], [6, 4, 1])[0]
            op = dice.choices("cud", [3, 6, 2])[0]
            told = f"big {len(world.sent)}"
            big = told if op == "c" else dice.choice([PLACEHOLDER, told])
            was = None
            if op == "u" and big == told and len(world.ends) == 1 and dice.random() < 0.3:
                was = dice.randrange(6)
            world.send(dice.randrange(6), op, big, at, dice.choice("ab"), was)
            if world.mode == "mirror" and len(world.ends) == 1 and dice.random() < 0.04:
                world.send(0, "t")
        elif throw < 0.78 and len(world.ends) < 4 and dice.random() < 0.3:
            world.ends |= dict.fromkeys(range(len(world.ends), 2 * len(world.ends)), 0)
            world.starts |= dict.fromkeys(range(len(world.starts), len(world.ends)), 0)
        elif throw < 0.8:
            number = dice.randrange(len(world.ends))
            if world.ends[number]:
                world.starts[number] = max(world.starts[number], dice.randrange(world.ends[number] // 2 + 1))
        elif throw < 0.83:
            world.expire()
        else:
            a_replay(world, dice)


def a_replay(world, dice):
    reason, since = dice.choice(["", "a", "b"]), dice.choice([0, dice.randrange(len(world.sent) + 1)])
    world.crash = dice.choices(["", "before", "after"], [4, 1, 1])[0]
    if dice.random() < 0.2:
        world.meanwhile.append(lambda: world.send(dice.randrange(6), "u", PLACEHOLDER))

    def takes(letter):
        return reason in {"", letter.reason} and letter.sent_ms >= since * APART_MS

    done = set(world.settled())
    try:
        world.replay(takes, dice.choice([1, 2, 5_000]))
    except CrashError:
        world.files_left.clear()
    world.crash, world.meanwhile = "", []
    assert not world.files_left
    assert done <= world.settled() or not world.summaries
    check(world)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("mode", ["mirror", "changelog"])
def test_letters_that_are_replayed_in_pieces_make_the_rows_of_a_fold(catalog, mode, seed):
    dice = random.Random(seed)
    world = World(catalog, mode, dice)
    played(world, dice, 60)
    fates = world.replay()

    check(world)
    gone = {one.where for one in world.sent if one.offset < world.starts[one.partition]}
    for one in world.sent:
        if one.where in fates and one.at == HOPELESS and one.where not in gone:
            assert fates[one.where] in {Fate.BAD, *([Fate.UNDECIDED] if len(world.ends) > 1 else [])}
    if len(world.ends) == 1:
        left = {at for at, fate in fates.items() if fate == Fate.UNDECIDED}
        assert left <= gone, "one partition is always decidable while Kafka holds it"
    rows, log = dict(world.rows), list(world.log)
    again = world.replay()
    assert (rows, log) == (world.rows, world.log)
    assert {at for at, fate in again.items() if fate is Fate.WRITTEN} <= set()
