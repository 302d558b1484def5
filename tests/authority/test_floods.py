"""A flood of intents, writers or names on the control topic has ceilings, and holds its table while it lasts."""

import sqlite3

import pytest

from isotherm.contract.events import OpenWindow
from isotherm.contract.identity import partition_key
from isotherm.core import observations as seen
from isotherm.service.rounds.rounds import STRANGERS_AT_ONCE
from isotherm.service.topics.events_to_state import MAX_STRANGERS, PIECE
from isotherm.store.fold.writers import MAX_ANNOUNCERS, MAX_BYTES, MAX_INTENTS, MAX_STRANGERS_BYTES, MAX_WORDS
from support.forged import AN_HOUR_MS, hear, intent, verdicts, with_debt
from support.lab import event_of, of, settle, started, uuid_of


def crowded(lab):
    return sum(one.outcome == "crowded" for one in of(lab, seen.EventSeen))


def test_a_flood_of_intents_is_kept_as_one_that_holds_the_whole_table_until_it_is_over(lab):
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    assert "due" in verdicts(service, uuid)
    hear(lab, service, [intent(uuid, number) for number in range(10 * MAX_INTENTS)])

    assert len(service.fold.intents(uuid)) == MAX_INTENTS + 1
    assert crowded(lab) == 9 * MAX_INTENTS
    assert verdicts(service, uuid) == {"hot"}
    # No closing lifts what stands for the rest: nobody can have its id.
    kept = [one.intent_id for one in service.fold.intents(uuid)]
    hear(lab, service, [intent(uuid, state="closed", intent_id=one) for one in kept])
    assert [one.partitions for one in service.fold.intents(uuid)] == [None]
    assert verdicts(service, uuid) == {"hot"}

    lab.ahead_ms += AN_HOUR_MS
    service.round()
    assert "due" in verdicts(service, uuid)
    hear(lab, service, [intent(uuid)])
    assert [one.intent_id for one in service.fold.intents(uuid)] == ["forged 0"]
    service.stop()


def test_large_intents_are_too_many_sooner(lab):
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    long = tuple(partition_key({1000: "x" * 1000 + str(number)}) for number in range(200))
    hear(lab, service, [intent(uuid, number, partitions=long) for number in range(10)])

    kept = service.fold.intents(uuid)
    assert sum(len(one.model_dump_json()) for one in kept) < MAX_BYTES + 1000
    assert crowded(lab) == 10 - (len(kept) - 1) > 0
    assert verdicts(service, uuid) == {"hot"}
    service.stop()


def test_intents_on_tables_that_nobody_knows_have_one_ceiling_together(lab):
    """What was refused may have been the intent of a table that is found a moment later: it is held as a whole."""
    service = started(lab)
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        lab.append(table, hour, announce=False)
    large = tuple(partition_key({1000: "x" * 1000 + str(number)}) for number in range(400))
    hear(lab, service, [intent(f"no table {number}", number, partitions=large) for number in range(30)])
    hear(lab, service, [intent(uuid_of(table))])
    settle(service)

    kept = [service.fold.intents(f"no table {number}") for number in range(30)]
    assert sum(len(one.model_dump_json()) for intents in kept for one in intents) <= MAX_STRANGERS_BYTES
    assert crowded(lab) == sum(not intents for intents in kept) > 0
    assert verdicts(service, uuid_of(table)) == {"hot"}
    assert service.ledger.operations() == []
    assert not any(service.fold.announces(f"no table {number}", f"nobody {number}") for number in range(30))
    service.stop()


@pytest.mark.parametrize("is_known", [True, False], ids=["a table of ours", "a table that nobody knows"])
def test_what_the_others_name_is_not_read_for_one_more_intent(lab, is_known):
    """It may be megabytes, and a poll may bring hundreds of intents."""
    table, service = with_debt(lab)
    uuid = uuid_of(table) if is_known else "no table"
    hear(lab, service, [intent(uuid)])
    read = set()

    def note(action, table, column, *_):
        if action == sqlite3.SQLITE_READ:
            read.add((table, column))
        return sqlite3.SQLITE_OK

    service.fold.db.set_authorizer(note)
    lab.announce(intent(uuid, 1))
    service.intake.take(service.events.poll(0))
    service.fold.db.set_authorizer(None)

    assert ("intents", "names_all") in read
    assert ("intents", "value") not in read
    assert len(service.fold.intents(uuid)) == 2
    service.stop()


def test_a_poll_of_slow_messages_is_no_loop_that_is_stuck(lab):
    """Each of them takes a second, and /livez gives up after five minutes."""
    alive = []

    class Slow(list):
        def append(self, observation):
            super().append(observation)
            if isinstance(observation, seen.EventSeen):
                lab.ahead_ms += 1000
                alive.append(service.health.is_alive(service.monotonic_s()))

    lab.seen = Slow()
    table, service = with_debt(lab)
    hear(lab, service, [intent(uuid_of(table), number % 50) for number in range(500)])

    assert alive.count(True) == len(alive) >= 500
    assert service.events.committed == len(lab.topic.messages)
    service.stop()


def test_one_more_intent_on_a_table_that_is_held_already_decides_nothing_again(lab):
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    hear(lab, service, [intent(uuid, partitions=None)])
    assert verdicts(service, uuid) == {"hot"}
    lab.announce(intent(uuid, 1, partitions=None))
    lab.announce(intent(uuid, 2, state="closed"))
    service.intake.take(service.events.poll(0))

    row = service.fold.table(uuid)
    awake = service.fold.undecided(
        uuid, service.now_ms(), row.state.boundary_ms, row.state.foreign_commits, 100, anew=True
    )
    assert dict(awake.states) == {}
    service.stop()


def test_writers_that_announce_are_remembered_up_to_a_ceiling(lab):
    """The oldest is forgotten: then late writes are reckoned with again, until it is heard."""
    table, service = with_debt(lab)
    uuid, fold = uuid_of(table), service.fold
    for number in range(2 * MAX_ANNOUNCERS):
        lab.ahead_ms += 1
        hear(lab, service, [intent(uuid, number, state="closed")])

    known = [number for number in range(2 * MAX_ANNOUNCERS) if fold.announces(uuid, f"nobody {number}")]
    assert known == list(range(MAX_ANNOUNCERS, 2 * MAX_ANNOUNCERS))
    service.stop()


def word(table, number, **window):
    return event_of(table, writer=f"nobody {number}", open_window=OpenWindow(**window) if window else None)


def test_a_flood_of_writers_with_open_windows_holds_the_whole_table_instead(lab):
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    hear(lab, service, [word(table, number, from_ms=2**50) for number in range(2 * PIECE)])

    # One more stands for all of whom nothing is known but that there are some.
    assert len(service.fold.words(uuid)) == MAX_WORDS + 1
    assert crowded(lab) == 2, "once for each piece of the flood that was too much"
    service.round()
    assert verdicts(service, uuid) == {"hot"}
    lab.ahead_ms += 2 * AN_HOUR_MS
    service.round()
    assert "due" in verdicts(service, uuid)
    service.stop()


def test_writers_that_say_nothing_of_what_they_will_write_are_one(lab):
    """A writer with another name for each commit holds nothing back."""
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    hear(lab, service, [word(table, number) for number in range(3 * MAX_WORDS)])

    assert len(service.fold.words(uuid)) == MAX_WORDS + 1
    assert crowded(lab) == 0
    assert "due" in verdicts(service, uuid)
    service.stop()


def test_a_writer_that_was_silent_for_a_month_makes_room_and_is_not_forgotten_to_have_been(lab):
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    hear(lab, service, [word(table, number) for number in range(MAX_WORDS)])
    lab.ahead_ms += 32 * 24 * AN_HOUR_MS
    hear(lab, service, [word(table, "new")])

    words = {one.writer: one for one in service.fold.words(uuid)}
    assert set(words) == {"nobody new", "(unannounced)"}
    assert not words["(unannounced)"].announces
    service.stop()


def test_names_that_nobody_has_cost_a_bounded_number_of_looks(lab):
    table, service = with_debt(lab)
    event = event_of(table)
    forged = [
        event.model_copy(update={"table_uuid": f"u{number}", "table": f"shop.no{number}"})
        for number in range(3 * MAX_STRANGERS)
    ]
    hear(lab, service, forged)
    assert len(service.follower.strangers) == MAX_STRANGERS
    assert crowded(lab) == 2 * MAX_STRANGERS
    asked, real = [], service.catalog.load

    def load(name):
        asked.append(name)
        return real(name)

    service.catalog.load = load
    service.round()
    assert len([name for name in asked if name != "shop.orders"]) == STRANGERS_AT_ONCE
    for _ in range(MAX_STRANGERS // STRANGERS_AT_ONCE):
        service.round()

    assert len(asked) == len(set(asked) - {"shop.orders"}) + asked.count("shop.orders")
    assert service.follower.strangers == service.follower.suspects == set()
    assert set(service.fold.names().values()) == {"shop.orders"}
    service.stop()
