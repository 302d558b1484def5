"""What other systems announce becomes our own event, as the catalog has it, or is counted and dropped."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.contract.events import decode
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.kafka.formats import FORMATS
from isotherm.service.ports import Refused, StoreAway, Unavailable
from isotherm.service.relay import MAX_OF_ONE, MAX_TRIES, RETRY_AFTER_S, TABLES_A_TURN, TURN_BUDGET_S, Sources
from support.fakes import MemoryLetters, MemorySources, Topic
from support.kafka_connect import COMMIT, RECORDED, commit_to_table
from support.lab import believed, counted, settle

TOPIC = "control-iceberg"


class Heard:
    """A daemon of a lab with a source, and what it has heard."""

    def __init__(self, lab, **more):
        self.lab = lab
        self.topic = Topic()
        self.committed = {}
        self.service = self.open(**more)

    def open(self, **more):
        topics = MemorySources({TOPIC: self.topic}, self.committed)
        sources = Sources(topics, {TOPIC: FORMATS["iceberg-kafka-connect"]})
        service = self.lab.service(sources=sources, **more)
        service.start()
        return service

    def hear(self, *messages):
        self.topic.messages.extend(messages)
        self.service.relay.turn()

    @property
    def outcomes(self):
        return Counter(one.outcome for one in self.lab.seen if isinstance(one, seen.SourceHeard))

    @property
    def published(self):
        return [decode(value) for value in self.lab.topic.messages]


@pytest.fixture
def heard(lab):
    heard = Heard(lab)
    yield heard
    heard.service.stop()


def test_a_mistake_of_ours_at_a_source_ends_no_daemon(lab, heard):
    def mistaken(offsets):
        raise RuntimeError("a mistake")

    heard.service.relay.sources.topics.commit = mistaken
    heard.topic.messages.append(b"no commit")
    heard.service.step(0)

    (failed,) = [one for one in lab.seen if isinstance(one, seen.TableFailed)]
    assert failed.error == "RuntimeError: a mistake"


def test_a_commit_that_the_sink_names_is_announced_as_its_metadata_has_it(lab, heard):
    table = lab.create()
    expected = lab.append(table, 1, announce=False)
    heard.hear(commit_to_table("shop.orders", expected.snapshot_id, expected.table_uuid))
    (event,) = heard.published

    assert (event.announced_by, event.writer, event.catalog) == ("isotherm", "connect-sink", "lake")
    assert event.added_manifests == expected.added_manifests
    assert event.added_manifests_complete
    assert {
        name: text for name, text in expected.summary.items() if name.startswith("total-")
    } == event.summary
    names = (
        "table_uuid",
        "snapshot_id",
        "parent_id",
        "sequence_number",
        "timestamp_ms",
        "operation",
        "origin",
    )
    assert [getattr(event, name) for name in names] == [getattr(expected, name) for name in names]
    assert heard.outcomes == {"announced": 1}
    assert heard.committed == {TOPIC: 1}


def test_the_daemon_follows_a_table_by_nothing_but_a_source_and_asks_the_catalog_no_more(lab, heard):
    table = lab.create()
    first = lab.append(table, 1, announce=False)
    heard.hear(commit_to_table("shop.orders", first.snapshot_id))
    settle(heard.service)
    for hour in (1, 2, 2, 3):
        event = lab.append(table, hour, announce=False)
        heard.hear(commit_to_table("shop.orders", event.snapshot_id))
        heard.service.consume(heard.service.events.poll(0))

        assert counted(lab.scan()) == believed(heard.service, event.table_uuid)
    applied = [one for one in lab.seen if isinstance(one, seen.EventApplied)]
    assert len(applied) == 4


def test_what_is_not_there_is_counted_and_dropped(lab, heard):
    table = lab.create()
    event = lab.append(table, 1, announce=False)
    other = "00000000-0000-4000-8000-000000000000"
    heard.hear(
        commit_to_table("shop.orders", 4711),
        commit_to_table("shop.nothing", event.snapshot_id),
        commit_to_table("nowhere.at_all", None),
        commit_to_table("shop.orders", event.snapshot_id, other),
        commit_to_table("x" * 5_000 + ".'; DROP TABLE iceberg_tables; --", event.snapshot_id),
        RECORDED["data-written"],
    )

    assert heard.outcomes == {"unknown_snapshot": 1, "unknown_table": 4, "other_type": 1}
    assert heard.published == []
    assert heard.committed == {TOPIC: 6}


def test_a_commit_to_a_branch_is_not_announced(lab, heard):
    table = lab.create()
    first = lab.append(table, 1, announce=False)
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    table.append(table.scan().to_arrow(), branch="audit")
    staged = table.refresh().snapshot_by_name("audit").snapshot_id
    heard.hear(commit_to_table("shop.orders", staged))

    assert heard.outcomes == {"other_ref": 1}
    assert heard.published == []


def test_a_message_without_a_snapshot_means_the_newest(lab, heard):
    table = lab.create()
    heard.hear(commit_to_table("shop.orders", None))
    newest = lab.append(table, 1, announce=False)
    heard.hear(commit_to_table("shop.orders", None))

    assert heard.outcomes == {"unknown_snapshot": 1, "announced": 1}
    assert [event.snapshot_id for event in heard.published] == [newest.snapshot_id]


def test_one_batch_announces_a_snapshot_once_and_several_in_order(lab, heard):
    table = lab.create()
    ids = [lab.append(table, hour, announce=False).snapshot_id for hour in (1, 2, 3)]
    heard.hear(*[commit_to_table("shop.orders", one) for one in (*ids, *ids)])

    assert [event.snapshot_id for event in heard.published] == ids


def test_many_tables_at_once_are_announced_a_few_in_each_turn(lab, heard):
    tables = [lab.create(f"shop.t{number}") for number in range(TABLES_A_TURN + 3)]
    ids = {".".join(t.name()): lab.append(t, 1, announce=False).snapshot_id for t in tables}
    heard.hear(*[commit_to_table(name, one) for name, one in ids.items()])

    assert len(heard.published) == TABLES_A_TURN
    assert heard.service.relay.is_busy
    assert heard.committed == {TOPIC: TABLES_A_TURN}
    heard.service.relay.turn()
    assert {event.table: event.snapshot_id for event in heard.published} == ids
    assert not heard.service.relay.is_busy
    assert heard.committed == {TOPIC: len(ids)}


class AwayCatalog(IcebergCatalog):
    """A catalog that does not answer until it is told to."""

    is_away = True

    def load(self, name):
        if self.is_away:
            raise Unavailable("the catalog: no answer")
        return super().load(name)

    def ask(self):
        if self.is_away:
            raise Unavailable("the catalog: no answer")
        super().ask()


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


def test_many_snapshots_of_one_table_are_announced_in_turns_and_others_are_not_kept_waiting(lab, heard):
    long, short = lab.create("shop.long"), lab.create("shop.short")
    ids = [lab.append(long, 1, announce=False).snapshot_id for _ in range(3)]
    other = lab.append(short, 1, announce=False).snapshot_id
    relay, now_s = heard.service.relay, [0.0]
    event = relay.catalog.event

    def slowly(loaded, snapshot_id):
        now_s[0] += TURN_BUDGET_S
        return event(loaded, snapshot_id)

    relay.catalog.event = slowly
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(*(commit_to_table("shop.long", one) for one in ids), commit_to_table("shop.short", other))
    turns = [[one.snapshot_id for one in heard.published]]
    acknowledged = [heard.committed[TOPIC]]
    while relay.is_busy:
        relay.turn()
        turns.append([one.snapshot_id for one in heard.published][sum(map(len, turns)) :])
        acknowledged.append(heard.committed[TOPIC])

    assert turns == [[ids[0]], [other], [ids[1]], [ids[2]]]
    assert acknowledged == [1, 1, 2, 4], "up to the oldest that still waits"


def test_what_was_not_announced_before_a_crash_is_announced_after_it(lab, heard):
    table = lab.create()
    ids = [lab.append(table, hour, announce=False).snapshot_id for hour in (1, 2)]
    heard.topic.messages.extend(commit_to_table("shop.orders", one) for one in ids)
    replace(heard.service.relay, catalog=AwayCatalog(lab.catalog)).turn()
    assert heard.published == []
    again = heard.open()
    again.relay.turn()

    assert [event.snapshot_id for event in heard.published] == ids
    again.stop()


def test_what_nobody_can_read_is_set_aside_and_the_rest_goes_on(lab):
    letters = MemoryLetters()
    heard = Heard(lab, letters=letters)
    event = lab.append(lab.create(), 1, announce=False)
    garbage = [b"", None, b"\xff" * 2_000_000, COMMIT[:-1], b'{"specversion":"1.0"}']
    heard.hear(*garbage, commit_to_table("shop.orders", event.snapshot_id))
    heard.service.stop()

    assert [one.snapshot_id for one in heard.published] == [event.snapshot_id]
    assert heard.outcomes == {"rejected": 5, "announced": 1}
    assert [(message.value, message.offset) for message, _ in letters.safe] == [
        (value, at) for at, value in enumerate(garbage)
    ]


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
    for _ in range(MAX_TRIES):
        now_s[0] += RETRY_AFTER_S
        relay.turn()
    assert heard.outcomes["unreadable_table"] == 1


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


def test_a_message_at_which_we_fail_is_set_aside_and_those_behind_it_are_heard(lab):
    letters = MemoryLetters()
    heard = Heard(lab, letters=letters)
    expected = lab.append(lab.create(), 1, announce=False)
    decode_one = FORMATS["iceberg-kafka-connect"]

    def mistaken(value):
        if value == b"odd":
            raise RuntimeError("a mistake")
        return decode_one(value)

    heard.service.relay.sources.decoders[TOPIC] = mistaken
    heard.hear(b"odd", commit_to_table("shop.orders", expected.snapshot_id))
    heard.service.stop()

    assert [one.snapshot_id for one in heard.published] == [expected.snapshot_id]
    assert [message.value for message, _ in letters.safe] == [b"odd"]


def test_stores_that_do_not_answer_cost_a_turn_one_time_out_and_keep_no_other_table_waiting(lab, heard):
    expected = lab.append(lab.create("shop.zzz"), 1, announce=False)
    relay = heard.service.relay
    load, now_s = relay.catalog.load, [0.0]

    def dead(name):
        if name == "shop.zzz":
            return load(name)
        now_s[0] += 30
        raise StoreAway("no answer")

    relay.catalog.load = dead
    relay.monotonic_s = lambda: now_s[0]
    names = [f"shop.t{number}" for number in range(TABLES_A_TURN)]
    heard.hear(
        *(commit_to_table(name, 1, None) for name in names), commit_to_table("shop.zzz", expected.snapshot_id)
    )
    assert now_s == [30]
    for _ in range(TABLES_A_TURN):
        relay.turn()
        assert now_s[0] <= 30 * (TABLES_A_TURN + 1)

    assert [event.table for event in heard.published] == ["shop.zzz"]


def test_a_flood_for_one_table_is_kept_up_to_a_ceiling_and_counted(lab, heard):
    relay = heard.service.relay

    def broken(name):
        raise Unavailable("403")

    relay.catalog.load = broken
    now_s = [0.0]
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(*(commit_to_table("shop.aaa", 1, None) for _ in range(2 * MAX_OF_ONE)))
    for _ in range(MAX_TRIES + 1):
        now_s[0] += RETRY_AFTER_S
        relay.turn()

    assert heard.outcomes == {"crowded": MAX_OF_ONE, "unreadable_table": MAX_OF_ONE}


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
    for _ in range(MAX_TRIES):
        now_s[0] += RETRY_AFTER_S
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
    """Each try waits half a minute for a dead store: so there is always one that was put off and is due again."""
    expected = lab.append(lab.create("shop.sound"), 1, announce=False).snapshot_id
    relay, now_s = heard.service.relay, [0.0]
    load = relay.catalog.load

    def dead(name):
        if name == "shop.sound":
            return load(name)
        now_s[0] += 30
        raise StoreAway("no answer")

    relay.catalog.load = dead
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(commit_to_table("shop.aaa", 1), commit_to_table("shop.bbb", 1))
    relay.turn()
    assert relay.is_busy
    heard.hear(commit_to_table("shop.sound", expected))

    assert [event.snapshot_id for event in heard.published] == [expected]
