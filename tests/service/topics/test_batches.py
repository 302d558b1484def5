"""Events that came together are folded together, and mean what they mean one by one."""

import itertools
import threading
from collections import Counter

import pytest

from isotherm.contract.events import Intent, OpenWindow, decode, encode
from isotherm.core import observations as seen
from isotherm.iceberg.announced_changes import SLOW_IN_A_ROW, changes_announced
from isotherm.iceberg.threads import THREADS
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import without_end
from isotherm.service.topics.consumer import MANY, VERDICTS_WITHIN_S
from isotherm.store.fold import JOURNAL_LENGTH
from isotherm.store.ledger import Account
from perf.made import make
from support.lab import NEVER_DUE, Lab, of, uuid_of

STEP = 10
"""SQLite tells of every so many steps of its virtual machine."""


class Still(Lab):
    """A lab in which no time passes."""

    def now_ms(self):
        return 1_800_000_000_000

    def monotonic_s(self):
        return 1_800_000_000.0


def said_of(lab, tables):
    """What comes on the topic while two tables are written: commits, words, intents, doubles, what makes no sense."""
    said = []
    for number, hour in enumerate((3, 1, 3, 4, 2)):
        for table in tables:
            event = lab.append(table, hour, 1, announce=False)
            window = OpenWindow(partitions=('{"1000":490000}',)) if hour == 1 else None
            said.append(event.model_copy(update={"writer": f"w{number % 2}", "open_window": window}))
        said.append(
            Intent(
                table_uuid=uuid_of(tables[number % 2]),
                table="shop.a",
                intent_id=f"i{number % 3}",
                writer=f"w{number % 2}",
                partitions=('{"1000":490001}',),
                at_ms=1,
                expires_at_ms=1_900_000_000_000,
                state="closed" if number == 3 else "open",
            )
        )
    forged = event.model_copy(
        update={
            "snapshot_id": 5,
            "parent_id": event.snapshot_id,
            "sequence_number": 99,
            "summary": {"total-data-files": "99"},
        }
    )
    lost = forged.model_copy(update={"snapshot_id": 6, "parent_id": 7})
    return [*(encode(one)[1] for one in (*said, said[0], forged, said[4], lost)), b"no event"]


def everything(service):
    """All that the stores hold, but for the numbers of the journal and the name of the ledger."""
    told = {}
    for store in (service.fold, service.ledger):
        for (table,) in store.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = store.db.execute(f"SELECT * FROM {table}").fetchall()
            told[table] = sorted(repr(row[1:] if table == "journal" else row) for row in rows)
    del told["facts"], told["about"]
    return told


@pytest.mark.parametrize("size", [3, 100])
def test_a_batch_leaves_what_its_messages_leave_one_by_one(tmp_path, size):
    lab = Still(tmp_path, policy=NEVER_DUE)
    tables = [lab.create("shop.a"), lab.create("shop.b")]
    for table in tables:
        lab.append(table, 1, 2, announce=False)
    daemons = {}
    for at_once in (1, size):
        lab.root = tmp_path / str(at_once)
        daemons[at_once] = lab.service()
        daemons[at_once].start()
        daemons[at_once].round()
    messages = said_of(lab, tables)
    left = {}
    for at_once, service in daemons.items():
        lab.seen.clear()
        service.events.topic.messages = list(messages)
        came = service.events.poll(0)
        for some in (came[:15], came[15:]):
            # Drift comes with the second part: a table that is to be scanned gets no verdicts before it.
            for at in range(0, len(some), at_once):
                service.consume(some[at : at + at_once])
        outcomes = Counter(one.outcome for one in of(lab, seen.EventSeen))
        left[at_once] = (everything(service), len(of(lab, seen.EventApplied)), outcomes)

    # The forged one follows the head, and its totals do not add up: the catalog has to say what is true.
    assert not of(lab, seen.StateDrifted)
    assert left[1][1:] == (10, {"intent": 5, "duplicate": 2, "deferred": 2})
    assert left[size] == left[1]
    lab.executor.stop()


def test_of_many_events_of_a_table_the_state_is_written_once(tmp_path):
    lab = Lab(tmp_path, policy=NEVER_DUE)
    made = make(lab, "shop.orders", columns=3, now_ms=now_ms(), files=200, partitions=20, snapshots=20)
    service = lab.service()
    service.start()
    service.round()

    def steps(events):
        counted = Counter()
        lab.topic.messages.extend(made.event(now_ms()) for _ in range(events))
        for name, store in {"fold": service.fold, "ledger": service.ledger}.items():
            store.db.set_progress_handler(lambda name=name: counted.update([name]), STEP)
        service.consume(service.events.poll(0))
        for store in (service.fold, service.ledger):
            store.db.set_progress_handler(None, STEP)
        return counted

    steps(1)
    one, twenty = steps(1), steps(20)

    assert service.fold.table(made.uuid).state.head == made.head
    # What remains is the journal, and an account and a change for each.
    assert twenty["fold"] < 4 * one["fold"]
    assert sum(twenty.values()) < 8 * sum(one.values())
    lab.executor.stop()


def test_an_event_of_a_known_snapshot_costs_the_same_however_many_wait_to_be_announced(tmp_path):
    """After an outage a look at the catalog may have found thousands; then their events come."""
    lab = Still(tmp_path, policy=NEVER_DUE)
    table = lab.create()
    lab.append(table, 1)
    event = lab.append(table, 1)
    service = lab.settled()
    uuid, steps, counts = uuid_of(table), [], []
    service.ledger.db.set_progress_handler(lambda: steps.append(1), STEP)
    for snapshots in (range(10, 20), range(20, 1000)):
        accounts = [
            Account(number, 1, "found", 1, lab.now_ms(), None, announced=False) for number in snapshots
        ]
        service.ledger.account(uuid, accounts)
        known = event.model_copy(update={"snapshot_id": snapshots[0], "sequence_number": 1})
        lab.topic.messages.append(encode(known)[1])
        steps.clear()
        service.consume(service.events.poll(0))
        counts.append(len(steps))

    assert of(lab, seen.EventSeen)[-2:] == [seen.EventSeen(seen.Heard.DUPLICATE, "shop.orders")] * 2
    assert counts[1] < 3 * counts[0], "a hundred times as many wait"
    lab.executor.stop()


def test_while_many_messages_wait_verdicts_do_too_and_are_made_once_they_are_read(tmp_path):
    lab = Still(tmp_path, policy=NEVER_DUE)
    made = make(lab, "shop.orders", columns=3, now_ms=lab.now_ms(), files=200, partitions=20, snapshots=20)
    service = lab.service()
    service.start()
    service.round()

    lab.topic.messages.extend(made.event(lab.now_ms()) for _ in range(20))
    lab.topic.messages.extend([b"no event"] * MANY)
    service.consume(service.events.poll(0))
    row = service.fold.table(made.uuid)
    touched = service.fold.undecided(made.uuid, lab.now_ms(), None, 0, 1000, anew=False).states
    assert (row.state.head, service.events.committed) == (made.head, len(lab.topic.messages))
    assert touched, "a round finds them, should the process end now"
    assert of(lab, seen.EventApplied) == []

    service.consume(())
    applied = of(lab, seen.EventApplied)
    assert [one.decided_at_ms for one in applied] == [lab.now_ms()] * 20
    assert not service.fold.undecided(made.uuid, lab.now_ms(), None, 0, 1000, anew=False).states
    lab.executor.stop()


def test_verdicts_are_made_now_and_then_however_many_messages_wait(tmp_path):
    lab = Lab(tmp_path, policy=NEVER_DUE)
    made = make(lab, "shop.orders", columns=3, now_ms=now_ms(), files=200, partitions=20, snapshots=20)
    service = lab.service()
    service.start()
    service.round()
    for _ in range(2):
        lab.topic.messages.extend(made.event(now_ms()) for _ in range(JOURNAL_LENGTH // 2))
        lab.topic.messages.extend([b"no event"] * MANY)
        service.consume(service.events.poll(0))
        lab.ahead_ms += int(1000 * VERDICTS_WITHIN_S)

    assert len(of(lab, seen.EventApplied)) == JOURNAL_LENGTH
    lab.executor.stop()


def test_the_manifests_of_a_batch_are_read_at_the_same_time_where_their_store_is_slow(tmp_path):
    lab = Lab(tmp_path, policy=NEVER_DUE)
    made = make(lab, "shop.orders", columns=3, now_ms=now_ms(), files=200, partitions=20, snapshots=20)
    service = lab.service()
    service.start()
    service.round()
    loaded = service.follower.loaded(made.uuid)
    new_input, both = loaded.handle.io.new_input, threading.Barrier(4, timeout=60)
    reads, clock = itertools.count(1), itertools.count(0.0, 0.03)

    def together(location):
        if next(reads) > SLOW_IN_A_ROW:
            both.wait()  # each is read when four are
        return new_input(location)

    loaded.handle.io.new_input = together
    asked = [(loaded, decode(made.event(now_ms()))) for _ in range(SLOW_IN_A_ROW + 4)]
    changes = changes_announced(asked, THREADS, without_end, lambda: next(clock))

    assert [change.snapshot_id for change in changes] == [event.snapshot_id for _, event in asked]
    lab.executor.stop()
