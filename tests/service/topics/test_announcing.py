"""What nobody announced is announced by the daemon: a little in each round, and nothing that was heard already."""

import pytest

from isotherm.contract.events import decode
from isotherm.core import observations as seen
from isotherm.service.topics.announcer import ANNOUNCE_FOR_S, ANNOUNCED_AT_ONCE
from isotherm.service.topics.heard_early import MOST_EARLY, HeardEarly
from support.faults import FaultyCatalog
from support.lab import NEVER_DUE, Lab, of, started, uuid_of

LATE_MS = 31_000
"""After which nobody else is expected to announce a snapshot."""


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=NEVER_DUE)


def after_an_outage(lab, commits):
    """A table with commits that nobody announced, and a daemon that has scanned it: its journal has none of them."""
    table = lab.create()
    lab.append(table, 1, announce=False)
    service = started(lab)
    service.step(0)
    service.stop()
    (lab.root / "state" / "fold.db").unlink()
    ids = [lab.append(table, 1, rows=1, announce=False).snapshot_id for _ in range(commits)]
    service = started(lab)
    service.step(0)
    lab.ahead_ms += LATE_MS
    return table, service, ids


def announced(lab):
    return [decode(message).snapshot_id for message in lab.topic.messages]


def test_a_round_announces_some_of_what_an_outage_left_and_loads_the_table_once(lab):
    loads = []
    lab.catalog = FaultyCatalog(lab.catalog, on_load=lambda real, name: loads.append(name) or real(name))
    table, service, ids = after_an_outage(lab, ANNOUNCED_AT_ONCE + 3)
    loads.clear()
    service.step(0)

    assert announced(lab) == ids[:ANNOUNCED_AT_ONCE], "the oldest first"
    assert len(loads) <= 3, "to confirm its head, to look at the whole catalog, and to announce"
    service.step(0)
    assert announced(lab) == ids
    service.step(0)
    assert announced(lab) == ids, "each once"
    assert [one.snapshots for one in of(lab, seen.GapHealed)] == [ANNOUNCED_AT_ONCE, 3]
    assert service.ledger.unannounced(uuid_of(table), service.now_ms()) == []
    service.stop()


def test_a_store_that_takes_long_for_each_list_ends_the_announcing_of_this_round(lab):
    _, service, ids = after_an_outage(lab, 3)
    publish = service.events.publish

    def slowly(event):
        lab.ahead_ms += int(ANNOUNCE_FOR_S * 1000)
        publish(event)

    service.events.publish = slowly
    for number in range(len(ids)):
        service.step(0)

        assert announced(lab) == ids[: number + 1]
        service.step(0)  # a round that took so long ends in a turn of its own
    service.stop()


def test_what_was_heard_before_the_catalog_was_asked_is_not_announced_again(lab):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    service.step(0)
    service.stop()
    heard = [lab.append(table, 1).snapshot_id for _ in range(2)]
    unheard = lab.append(table, 1, announce=False).snapshot_id
    madeup = decode(lab.topic.messages[-1]).model_copy(update={"snapshot_id": 7, "parent_id": 8})
    lab.announce(madeup)
    before = announced(lab)
    service = started(lab)
    service.step(0)
    lab.ahead_ms += LATE_MS
    service.step(0)
    service.step(0)

    assert announced(lab) == [*before, unheard]
    accounts = {one.snapshot_id: one.announced for one in service.ledger.accounts(uuid_of(table))}
    assert [accounts[one] for one in (*heard, unheard)] == [True] * 3
    assert 7 not in accounts, "an event alone makes no snapshot"
    service.stop()


def test_of_what_was_heard_early_the_oldest_is_forgotten_beyond_a_bound():
    early = HeardEarly()
    for snapshot_id in range(MOST_EARLY + 1):
        early.note("a", snapshot_id)

    assert early.take("b", [1]) == []
    assert early.take("a", [0, 1, 2]) == [1, 2]
    assert early.take("a", [1, 2]) == []
