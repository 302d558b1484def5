"""A table that cannot be announced keeps no other waiting, and is let go at last."""

from pathlib import Path

import pytest

from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.service.ports import Refused, StoreAway, Unavailable
from isotherm.service.topics.relay import MAX_TRIES, RETRY_AFTER_S
from support.kafka_connect import commit_to_table
from support.relayed import TOPIC


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
