"""Tables that answer slowly, or not at all, cost the relay a share of a round, and no other table its turn."""

import pytest

from isotherm.core import observations as seen
from isotherm.service.ports import StoreAway, TableSilent, TooLong
from isotherm.service.tables.failing_tables import Doubt
from isotherm.service.tables.lost_time import MOST_LOST_S
from isotherm.service.topics.relay import TABLES_A_TURN
from support.kafka_connect import commit_to_table
from support.relayed import TOPIC


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
