"""A table that cannot be announced keeps no other waiting, and nothing is let go while the catalog is away."""

from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.service.ports import Refused, StoreAway, TableSilent, TooLong, Unavailable
from isotherm.service.tables.failing_tables import Doubt
from isotherm.service.tables.lost_time import MOST_LOST_S
from isotherm.service.topics.relay import MAX_TRIES, RETRY_AFTER_S, TABLES_A_TURN
from support.kafka_connect import commit_to_table
from support.relayed import TOPIC, AwayCatalog


def test_a_mistake_of_ours_at_a_source_ends_no_daemon(lab, heard):
    def mistaken(offsets):
        raise RuntimeError("a mistake")

    heard.service.relay.sources.topics.commit = mistaken
    heard.topic.messages.append(b"no commit")
    heard.service.step(0)

    (failed,) = [one for one in lab.seen if isinstance(one, seen.TableFailed)]
    assert failed.error == "RuntimeError: a mistake"


def test_a_catalog_that_is_away_makes_it_wait_and_nothing_is_acknowledged(lab, heard):
    table = lab.create()
    event = lab.append(table, 1, announce=False)
    catalog = AwayCatalog(lab.catalog)
    at_s = [0.0]
    relay = replace(heard.service.relay, catalog=catalog, monotonic_s=lambda: at_s[0])
    heard.topic.messages.append(commit_to_table("shop.orders", event.snapshot_id))
    relay.turn()
    relay.turn()

    assert heard.committed == {}
    assert len([one for one in lab.seen if isinstance(one, seen.TrySoon)]) == 1
    catalog.is_away = False
    relay.turn()
    assert heard.published == []
    at_s[0] = 60.0
    relay.turn()
    assert [one.snapshot_id for one in heard.published] == [event.snapshot_id]
    assert heard.committed == {TOPIC: 1}


def test_a_table_that_cannot_be_read_keeps_no_other_waiting_and_is_let_go_at_last(lab, heard):
    lab.append(lab.create("shop.aaa"), 1, announce=False)
    sound = lab.create("shop.bbb")
    expected = lab.append(sound, 1, announce=False)
    relay = heard.service.relay
    load = relay.catalog.load

    def broken(name):
        if name == "shop.aaa":
            raise Unavailable("403")
        return load(name)

    relay.catalog.load = broken
    now_s = [0.0]
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(
        commit_to_table("shop.aaa", 1, None),
        commit_to_table("shop.bbb", expected.snapshot_id, expected.table_uuid),
    )

    assert [event.table for event in heard.published] == ["shop.bbb"]
    assert heard.outcomes["unreadable_table"] == 0
    for tries in range(MAX_TRIES - 1):
        assert heard.outcomes["unreadable_table"] == 0
        now_s[0] += RETRY_AFTER_S * 2**tries
        relay.turn()
    assert heard.outcomes["unreadable_table"] == 1
    assert now_s[0] == pytest.approx(300, abs=20), "over some five minutes"


def test_a_mistake_of_ours_at_one_table_keeps_no_other_waiting(lab, heard):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    first, second = (lab.append(table, 1, announce=False) for table in tables)
    relay = heard.service.relay
    event = relay.catalog.event

    def mistaken(loaded, snapshot_id):
        if loaded.table.name == "shop.aaa":
            raise RuntimeError("a mistake")
        return event(loaded, snapshot_id)

    relay.catalog.event = mistaken
    now_s = [0.0]
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(
        commit_to_table("shop.aaa", first.snapshot_id), commit_to_table("shop.bbb", second.snapshot_id)
    )

    assert [event.table for event in heard.published] == ["shop.bbb"]
    (told,) = [one for one in lab.seen if isinstance(one, seen.TrySoon)]
    assert told.what == "table shop.aaa, which a source named"
    relay.catalog.event = event
    now_s[0] += RETRY_AFTER_S
    relay.turn()
    assert [event.table for event in heard.published] == ["shop.bbb", "shop.aaa"]
    assert heard.committed == {TOPIC: 2}


def test_between_two_rounds_stores_that_do_not_answer_cost_one_share_and_keep_no_other_table_waiting(
    lab, heard
):
    expected = lab.append(lab.create("shop.zzz"), 1, announce=False)
    relay = heard.service.relay
    load, now_s = relay.catalog.load, [0.0]

    def dead(name):
        if name == "shop.zzz":
            return load(name)
        now_s[0] += MOST_LOST_S - 1
        raise StoreAway("no answer")

    relay.catalog.load = dead
    relay.monotonic_s = lambda: now_s[0]
    names = [f"shop.t{number}" for number in range(TABLES_A_TURN)]
    heard.hear(
        *(commit_to_table(name, 1, None) for name in names), commit_to_table("shop.zzz", expected.snapshot_id)
    )
    assert now_s == [MOST_LOST_S - 1], "one in a turn, which they end"
    for number in range(TABLES_A_TURN // 2):
        lost_s = now_s[0]
        relay.turn()
        relay.turn()
        assert not relay.is_busy
        assert now_s[0] - lost_s == (MOST_LOST_S - 1) * (1 if number == 0 else 2)
        relay.round_begins()
    relay.turn()
    relay.round_begins()
    relay.turn()

    assert [event.table for event in heard.published] == ["shop.zzz"]


@pytest.mark.parametrize("error", [StoreAway, TableSilent, TooLong])
def test_a_table_for_which_the_loop_waits_in_vain_is_let_go_at_once_and_a_round_asks_for_it(
    lab, heard, error
):
    """It was asked for thirty times within ten minutes, half a minute each, whatever rounds knew of it."""
    event = lab.append(lab.create(), 1)
    service, asked = heard.service, []
    service.round()
    load = service.catalog.load

    def waits(name):
        asked.append(name)
        raise error("no answer")

    service.catalog.load = waits
    for _ in range(3):
        heard.hear(commit_to_table("shop.orders", event.snapshot_id))

    assert heard.outcomes == {"unreadable_table": 3}
    assert asked == ["shop.orders"]
    assert service.barrier.is_aside("shop.orders")
    assert heard.committed == {TOPIC: 3}
    assert service.follower.suspects == {"shop.orders"}
    missed = lab.append(lab.catalog.load_table("shop.orders"), 1, announce=False).snapshot_id
    service.catalog.load = load
    lab.ahead_ms += 10_000
    service.round()
    (uuid,) = service.fold.names()
    assert service.fold.table(uuid).confirmed_head == missed, "the round has found what was not announced"


def test_a_source_keeps_no_round_from_reporting_a_table_that_comes_too_slowly(lab, heard):
    event = lab.append(lab.create(), 1)
    service = heard.service
    service.round()

    def slow(name):
        raise TooLong("it came more slowly than 40 KiB a second")

    service.catalog.load = slow
    heard.hear(commit_to_table("shop.orders", event.snapshot_id))

    (failed,) = [one for one in lab.seen if isinstance(one, seen.TableFailed)]
    assert (failed.name, failed.error) == ("shop.orders", "it came more slowly than 40 KiB a second")


@pytest.mark.parametrize("is_away", [False, True], ids=["damaged", "silent"])
def test_what_a_round_has_set_aside_is_let_go_and_the_round_finds_it(lab, heard, is_away):
    """As many as may wait kept the topic from being heard for an hour, where each was damaged and named each hour."""
    event = lab.append(lab.create(), 1, announce=False)
    service = heard.service
    service.round()
    missed = lab.append(lab.catalog.load_table("shop.orders"), 1, announce=False).snapshot_id
    service.barrier.put_aside("shop.orders", is_away=is_away)
    for _ in range(2):
        heard.hear(commit_to_table("shop.orders", event.snapshot_id))

    assert heard.published == []
    assert heard.committed == {TOPIC: 2}
    assert heard.outcomes == {"unreadable_table": 2}
    lab.ahead_ms += 10_000
    service.round()
    (uuid,) = service.fold.names()
    assert service.fold.table(uuid).confirmed_head == missed


def slow_tables(relay, is_slow, seconds, error=None):
    """From now on what is asked about some tables takes so long, by the clock that is returned."""
    load, now_s = relay.catalog.load, [0.0]

    def slow(name):
        if is_slow(name):
            now_s[0] += seconds
            if error is not None:
                raise error
        return load(name)

    relay.catalog.load = slow
    relay.monotonic_s = lambda: now_s[0]
    return now_s


def test_a_namespace_that_hangs_keeps_no_other_table_from_being_heard(lab, heard):
    """One share of a round is lost to one table of it. What comes after that was heard when all of them had cost one."""
    expected = lab.append(lab.create("shop.zzz"), 1, announce=False).snapshot_id
    relay = heard.service.relay
    slow_tables(relay, lambda name: name.startswith("dead."), 2 * MOST_LOST_S, TableSilent("timed out"))
    heard.hear(*(commit_to_table(f"dead.t{number}", 1) for number in range(2 * TABLES_A_TURN)))
    heard.hear(commit_to_table("shop.zzz", expected))
    relay.round_begins()
    relay.turn()

    assert [event.table for event in heard.published] == ["shop.zzz"]


def test_tables_that_answer_slowly_cost_a_share_of_a_round_too(lab, heard):
    ids = {name: lab.append(lab.create(name), 1, announce=False).snapshot_id for name in ("shop.a", "shop.b")}
    relay = heard.service.relay
    now_s = slow_tables(relay, lambda _: True, 2 * MOST_LOST_S)
    heard.hear(*(commit_to_table(name, one) for name, one in ids.items()))
    for _ in range(3):
        relay.turn()

    assert now_s == [2 * MOST_LOST_S]
    assert not relay.is_busy
    relay.round_begins()
    relay.turn()
    assert [event.table for event in heard.published] == ["shop.a", "shop.b"]


def test_a_table_that_was_read_for_a_source_speaks_for_its_namespace(lab, heard):
    expected = lab.append(lab.create("shop.zzz"), 1, announce=False).snapshot_id
    barrier = heard.service.barrier
    with barrier.around("shop.dead", "looking at it"):
        raise TableSilent("timed out")
    assert barrier.doubt("shop.zzz") is Doubt.NEIGHBOURS
    heard.hear(commit_to_table("shop.zzz", expected))

    assert [event.table for event in heard.published] == ["shop.zzz"]
    assert barrier.doubt("shop.zzz") is Doubt.NONE


def test_a_damaged_manifest_list_keeps_no_other_table_waiting(lab, heard):
    damaged, sound = lab.create("shop.aaa"), lab.create("shop.bbb")
    lost = lab.append(damaged, 1, announce=False)
    expected = lab.append(sound, 1, announce=False)
    path = Path(normalised(damaged.refresh().current_snapshot().manifest_list))
    relay = heard.service.relay
    event = relay.catalog.event

    def spoiled_meanwhile(loaded, snapshot_id):
        if loaded.table.name == "shop.aaa":
            path.write_bytes(b"not Avro")
        return event(loaded, snapshot_id)

    relay.catalog.event = spoiled_meanwhile
    heard.hear(
        commit_to_table("shop.aaa", lost.snapshot_id, lost.table_uuid),
        commit_to_table("shop.bbb", expected.snapshot_id, expected.table_uuid),
    )

    assert [event.table for event in heard.published] == ["shop.bbb"]


@pytest.mark.parametrize("kind", [StoreAway, Refused, Unavailable])
def test_a_snapshot_whose_files_cannot_be_read_keeps_no_other_table_waiting(lab, heard, kind):
    mixed, sound = lab.create("shop.aaa"), lab.create("shop.bbb")
    readable, refused = (lab.append(mixed, hour, announce=False).snapshot_id for hour in (1, 2))
    expected = lab.append(sound, 1, announce=False).snapshot_id
    relay = heard.service.relay
    event = relay.catalog.event

    def refusing(loaded, snapshot_id):
        if snapshot_id == refused:
            raise kind("403")
        return event(loaded, snapshot_id)

    relay.catalog.event = refusing
    now_s = [0.0]
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(
        *(commit_to_table("shop.aaa", snapshot_id) for snapshot_id in (readable, refused)),
        commit_to_table("shop.bbb", expected),
    )
    assert [event.snapshot_id for event in heard.published] == [readable, expected]
    for tries in range(MAX_TRIES - 1):
        now_s[0] += RETRY_AFTER_S * 2**tries
        relay.turn()

    assert [event.snapshot_id for event in heard.published] == [readable, expected]
    assert heard.outcomes == {"announced": 2, "unreadable_table": 1}
    assert heard.committed == {TOPIC: 3}


def test_a_snapshot_that_cannot_be_read_is_not_let_go_while_the_catalog_is_away_too(lab, heard):
    expected = lab.append(lab.create(), 1, announce=False)
    relay = heard.service.relay
    event, ask = relay.catalog.event, relay.catalog.ask

    def away(*_):
        raise StoreAway("no route to host")

    relay.catalog.event = relay.catalog.ask = away
    now_s = [0.0]
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(commit_to_table("shop.orders", expected.snapshot_id))
    for _ in range(2 * MAX_TRIES):
        now_s[0] += RETRY_AFTER_S
        relay.turn()
    relay.catalog.event, relay.catalog.ask = event, ask
    now_s[0] += RETRY_AFTER_S
    relay.turn()

    assert heard.outcomes == {"announced": 1}
    assert [event.snapshot_id for event in heard.published] == [expected.snapshot_id]


def test_nothing_is_let_go_while_the_catalog_is_away_as_a_whole(lab, heard):
    expected = lab.append(lab.create(), 1, announce=False)
    relay = heard.service.relay
    load, ask = relay.catalog.load, relay.catalog.ask

    def away(*_):
        raise Unavailable("timed out")

    relay.catalog.load = relay.catalog.ask = away
    now_s = [0.0]
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(commit_to_table("shop.orders", expected.snapshot_id, expected.table_uuid))
    for _ in range(2 * MAX_TRIES):
        now_s[0] += RETRY_AFTER_S
        relay.turn()
    assert (heard.published, heard.committed, sum(heard.outcomes.values())) == ([], {}, 0)

    relay.catalog.load, relay.catalog.ask = load, ask
    now_s[0] += RETRY_AFTER_S
    relay.turn()
    assert [event.snapshot_id for event in heard.published] == [expected.snapshot_id]


def test_the_sources_are_asked_in_each_turn_whatever_waits(lab, heard):
    """The group takes the topics from a member that does not ask, and gives what it has read to the next one."""
    tables = [lab.create(f"shop.t{number}") for number in range(2 * TABLES_A_TURN)]
    ids = {".".join(t.name()): lab.append(t, 1, announce=False).snapshot_id for t in tables}
    heard.hear(*[commit_to_table(name, one) for name, one in ids.items()])
    relay = heard.service.relay
    sources = relay.sources.topics

    def away(*_):
        raise Unavailable("the catalog: no answer")

    relay.catalog.load = relay.catalog.ask = away
    asked = sources.polls
    for _ in range(7):
        heard.hear(b"more")

    assert sources.polls == asked + 7
    assert sources.positions == {TOPIC: len(ids)}, "nothing more is taken while enough waits"
    assert heard.committed == {TOPIC: TABLES_A_TURN}, "and what waits is not acknowledged"


def test_tables_that_cannot_be_read_keep_nothing_from_being_acknowledged(lab, heard):
    """Two of them, announced again and again, kept the group where it was for ever: one always waited."""
    expected = lab.append(lab.create("shop.sound"), 1, announce=False).snapshot_id
    relay, now_s = heard.service.relay, [0.0]
    load = relay.catalog.load

    def refusing(name):
        if name != "shop.sound":
            raise Refused("403")
        return load(name)

    relay.catalog.load = refusing
    relay.monotonic_s = lambda: now_s[0]
    for _ in range(3):
        heard.hear(commit_to_table("shop.aaa", 1), commit_to_table("shop.sound", expected))
        now_s[0] += RETRY_AFTER_S / 2
        heard.hear(commit_to_table("shop.bbb", 1), commit_to_table("shop.aaa", 1))
        now_s[0] += RETRY_AFTER_S / 2

        assert heard.committed == {TOPIC: len(heard.topic.messages)}


def test_what_sources_name_is_heard_though_tables_that_cannot_be_read_are_tried_all_the_time(lab, heard):
    """Each try takes as long as the pause after it: so there is always one that was put off and is due again."""
    expected = lab.append(lab.create("shop.sound"), 1, announce=False).snapshot_id
    relay, now_s = heard.service.relay, [0.0]
    load = relay.catalog.load

    def dead(name):
        if name == "shop.sound":
            return load(name)
        now_s[0] += 10
        raise Unavailable("500")

    relay.catalog.load = dead
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(commit_to_table("shop.aaa", 1), commit_to_table("shop.bbb", 1))
    relay.round_begins()
    heard.hear(commit_to_table("shop.sound", expected))
    relay.round_begins()
    relay.turn()

    assert [event.snapshot_id for event in heard.published] == [expected]
