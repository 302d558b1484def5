"""What a replay makes of letters, case by case, by the real job of workers."""

import pytest

from isotherm_ingest.failures import TableRefused
from isotherm_ingest.marks import TakenOver
from isotherm_ingest.plan.cut_backs import Cut
from isotherm_ingest.replay.choosing import Fate
from isotherm_ingest.replay.letters import Letter
from support.replaying import APART_MS, GOOD, HOPELESS, MENDED, TOPIC, World
from support.wire import PLACEHOLDER


def notes(world):
    """By key, which message its row is of."""
    return {number: int(row[2]) for number, row in world.rows.items()}


@pytest.fixture
def mirror(catalog):
    return World(catalog, "mirror")


@pytest.fixture
def log(catalog):
    return World(catalog, "changelog")


def test_the_newest_change_of_a_key_stays(mirror):
    for at in (MENDED, GOOD, MENDED):
        mirror.send(1, at=at)
    mirror.send(2, at=MENDED)
    mirror.send(2, "d")
    fates = mirror.replay()

    assert list(fates.values()) == [Fate.SUPERSEDED, Fate.WRITTEN, Fate.SUPERSEDED]
    assert notes(mirror) == {1: 2}


def test_of_several_letters_of_a_key_the_newest_is_written_also_if_nobody_asked_for_it(mirror):
    mirror.send(1, at=MENDED, reason="a")
    mirror.send(1, at=MENDED, reason="b")
    fates = mirror.replay(lambda one: one.reason == "a")

    assert {at[2]: fate for at, fate in fates.items()} == {0: Fate.SUPERSEDED, 1: Fate.WRITTEN}
    assert notes(mirror) == {1: 1}


def test_a_newer_letter_in_its_place_is_written_whole(mirror):
    """It also brings its row to another key, which nobody asked for."""
    mirror.send(1, at=MENDED, reason="a")
    mirror.send(2, big="new", at=MENDED, reason="b", was=1)
    mirror.send(3, at=MENDED, reason="b")
    fates = mirror.replay(lambda one: one.reason == "a")

    assert {at[2]: fate for at, fate in fates.items()} == {0: Fate.SUPERSEDED, 1: Fate.WRITTEN}
    assert notes(mirror) == {2: 1}


def test_a_value_that_newer_changes_leave_as_it_was_comes_from_the_letter(mirror):
    mirror.send(1, "c", "old")
    mirror.send(1, "u", "late", at=MENDED)
    mirror.send(1, "u", PLACEHOLDER)
    fates = mirror.replay()

    assert list(fates.values()) == [Fate.WRITTEN]
    assert mirror.rows == {1: (1, 1, "2", "late")}


def test_a_letter_that_stays_one_keeps_no_older_letter_back(mirror):
    mirror.send(1, at=MENDED)
    mirror.send(1, at=HOPELESS)
    fates = mirror.replay()

    assert list(fates.values()) == [Fate.WRITTEN, Fate.BAD]
    assert notes(mirror) == {1: 0}


def test_a_row_that_a_bad_letter_took_to_another_key_does_not_come_back(mirror):
    mirror.send(1, at=MENDED)
    mirror.send(2, at=HOPELESS, was=1)
    fates = mirror.replay()

    assert list(fates.values()) == [Fate.SUPERSEDED, Fate.BAD]
    assert mirror.rows == {}


def test_what_kafka_has_dropped_is_not_decidable(mirror, log):
    for world in (mirror, log):
        world.send(1, at=MENDED)
        world.send(1, at=MENDED)
        world.starts[0] = 1
        assert list(world.replay().values()) == [Fate.UNDECIDED, Fate.WRITTEN]


def test_a_mirrors_letter_of_before_a_cut_is_not_decidable(mirror, log):
    for world, fate in ((mirror, Fate.UNDECIDED), (log, Fate.WRITTEN)):
        world.send(1, at=MENDED)
        world.send(2)
        world.cuts = {(TOPIC, 0): (Cut(APART_MS, 2, 5),)}
        assert list(world.replay().values()) == [fate]
        world.send(3, at=MENDED)
        world.send(4, at=MENDED)
        assert list(world.replay().values())[1:] == [Fate.WRITTEN, Fate.WRITTEN]


def test_a_key_that_came_in_another_partition_is_not_decidable(mirror):
    mirror.send(1, at=MENDED)
    mirror.send(2, at=MENDED)
    mirror.ends[1] = mirror.starts[1] = 0
    mirror.send(1)
    fates = mirror.replay()

    assert list(fates.values()) == [Fate.UNDECIDED, Fate.WRITTEN]
    assert notes(mirror) == {1: 2, 2: 1}


def test_what_another_partition_may_have_lost_makes_letters_undecidable(mirror):
    mirror.ends[1] = mirror.starts[1] = 0
    mirror.send(2, at=MENDED)
    mirror.send(1)
    mirror.send(1)
    mirror.starts[1] = 1
    assert list(mirror.replay().values()) == [Fate.UNDECIDED]


def test_what_another_partition_has_of_long_ago_is_not_read(mirror):
    mirror.ends[1] = mirror.starts[1] = 0
    mirror.send(1)
    for _ in range(8):
        mirror.send(2)
    mirror.send(4, at=MENDED)
    mirror.starts[1] = 1  # all that it had is older than the letter, or gone
    mirror.ends[1] = 2
    assert list(mirror.replay().values()) == [Fate.WRITTEN]


def test_a_letter_whose_offset_has_another_message_now_is_none_of_this_table(mirror, log):
    for world in (mirror, log):
        world.send(1)
        world.letters.append(Letter((TOPIC, 0, 0), 77, "a", 77))
        assert list(world.replay().values()) == [Fate.OTHER]
        assert not world.summaries


def test_letters_that_somebody_made_up_change_no_row(mirror, log):
    for world in (mirror, log):
        for order, op in enumerate("cuudcu"):
            world.send(1, op, PLACEHOLDER if op == "u" and order % 2 else f"b{order}")
        rows, written = dict(world.rows), list(world.log)
        for one in world.sent:
            world.letters.append(Letter(one.where, one.order * APART_MS, "a", 1))
        world.letters.append(Letter((TOPIC, 0, 99), 1, "a", 1))
        world.letters.append(Letter(("none", 0, 0), 1, "a", 1))
        fates = world.replay()

        assert (rows, written) == (world.rows, world.log)
        assert fates[TOPIC, 0, 99] is Fate.WAITS
        assert fates["none", 0, 0] is Fate.UNDECIDED


def test_a_driver_that_begins_ends_a_replay_before_its_commit(mirror, log):
    for world in (mirror, log):
        world.send(1, at=MENDED)

        def begun(_):
            raise TakenOver

        with pytest.raises(TakenOver):
            world.replay(check_alone=begun)
        assert not world.rows
        assert not world.log
        assert not world.files_left, "files that no commit was asked to add"


def test_a_table_that_never_stands_where_it_is_planned_for_is_given_up(mirror):
    mirror.send(1, at=MENDED)
    mirror.meanwhile = [lambda: mirror.send(5)] * 9

    with pytest.raises(TableRefused, match="start a driver"):
        mirror.replay()
    assert notes(mirror) == {5: 5}


def test_a_letter_above_the_tables_own_word_moves_it_and_no_other(log):
    log.send(1)
    log.send(2, at=MENDED)
    assert log.vector == {(TOPIC, 0): 1}
    log.replay()
    assert log.vector == {(TOPIC, 0): 2}


def test_what_a_truncate_has_taken_does_not_come_back(mirror):
    mirror.send(5, at=MENDED)
    mirror.send(2, "c", "old")
    mirror.send(0, "t")
    mirror.send(3, at=MENDED)
    mirror.send(1)
    fates = mirror.replay()

    assert list(fates.values()) == [Fate.SUPERSEDED, Fate.WRITTEN]
    assert notes(mirror) == {1: 4, 3: 3}


def test_behind_a_truncate_that_emptied_nothing_nobody_decides_and_it_stays_a_letter(mirror):
    mirror.send(1, at=MENDED)
    mirror.send(0, "t", at=MENDED)
    fates = mirror.replay()

    assert list(fates.values()) == [Fate.UNDECIDED, Fate.BAD]
    assert mirror.rows == {}
