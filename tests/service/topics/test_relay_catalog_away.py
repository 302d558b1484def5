"""While the catalog is away as a whole the relay waits: nothing is let go or acknowledged, and its sources are asked in each turn."""

from dataclasses import replace

from isotherm.core import observations as seen
from isotherm.service.ports import StoreAway, Unavailable
from isotherm.service.topics.relay import MAX_TRIES, RETRY_AFTER_S, TABLES_A_TURN
from support.kafka_connect import commit_to_table
from support.relayed import TOPIC, AwayCatalog


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
