"""What other systems announce becomes our own event, as the catalog has it, or is counted and dropped."""

from dataclasses import replace

from isotherm.core import observations as seen
from isotherm.kafka.formats import FORMATS
from isotherm.service.ports import Unavailable
from isotherm.service.topics.relay import MAX_OF_ONE, MAX_TRIES, RETRY_AFTER_S, TABLES_A_TURN, TURN_BUDGET_S
from support.kafka_connect import COMMIT, RECORDED, commit_to_table
from support.lab import believed, counted, settle
from support.memory_topics import MemoryLetters
from support.relayed import TOPIC, AwayCatalog, Heard


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


def test_a_flood_for_one_table_is_kept_up_to_a_ceiling_and_counted(lab, heard):
    relay = heard.service.relay

    def broken(name):
        raise Unavailable("403")

    relay.catalog.load = broken
    now_s = [0.0]
    relay.monotonic_s = lambda: now_s[0]
    heard.hear(*(commit_to_table("shop.aaa", 1, None) for _ in range(2 * MAX_OF_ONE)))
    for tries in range(MAX_TRIES):
        now_s[0] += RETRY_AFTER_S * 2**tries
        relay.turn()

    assert heard.outcomes == {"crowded": MAX_OF_ONE, "unreadable_table": MAX_OF_ONE}


def test_a_mistake_of_ours_at_a_source_ends_no_daemon(lab, heard):
    def mistaken(offsets):
        raise RuntimeError("a mistake")

    heard.service.relay.sources.topics.commit = mistaken
    heard.topic.messages.append(b"no commit")
    heard.service.step(0)

    (failed,) = [one for one in lab.seen if isinstance(one, seen.TableFailed)]
    assert failed.error == "RuntimeError: a mistake"
