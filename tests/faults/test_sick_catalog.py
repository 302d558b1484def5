"""A REST catalog behind a front on which things go wrong: each fault at a commit, and at every request for a while.

Judged from outside: by the rows that another client finds in each snapshot, and by the table's history.
"""

import re

import pytest

from isotherm.core import observations as seen
from isotherm.store.ledger import CLOCK
from support.lab import EAGER, believed, counted, of, settle, started, uuid_of

pytestmark = pytest.mark.stack

UNHEARD = ["404", "501", "html", "redirect", "silence"]
HEARD = ["lost", "held", "twice", "late", "trickle"]
POLICY = EAGER.replace("quiet_commits: 2", "quiet_commits: 0")


def with_work(lab, name):
    """A table with a partition that is due, and another that makes it cold."""
    table = lab.create(name)
    for hours in ((1,), (1,), (1, 3)):
        lab.append(table, *hours, announce=False)
    return table


def test_a_commit_lands_once_and_keeps_every_row_whatever_happens_to_the_request(rest_lab):
    lab = rest_lab(POLICY)
    names = {kind: f"shop.t_{kind}" for kind in UNHEARD + HEARD}
    for name in names.values():
        with_work(lab, name)
    rows = {kind: lab.read(name) for kind, name in names.items()}
    faults = [lab.front.add("POST", f"/tables/t_{kind}", kind) for kind in names]
    service = lab.service()
    service.start()
    for _ in range(6):
        settle(service)
        if all(lab.ours(name) for name in names.values()):
            break
        # A request that was refused, in whatever words, is a failure: its partition is left alone for a minute, or two.
        lab.ahead_ms += 120_000

    assert [fault.met for fault in faults] == [1] * len(faults)
    assert {kind: len(lab.ours(name)) for kind, name in names.items()} == dict.fromkeys(names, 1)
    assert {kind: lab.read(name) for kind, name in names.items()} == rows
    for name in names.values():
        assert all(lab.read(name, s.snapshot_id) for s in lab.writer.load_table(name).snapshots())
    refused = [one.outcome_why for one in service.ledger.operations() if one.reason == "refused"]
    assert sorted("catalog.properties.uri" in why for why in refused) == [False, True]
    assert any("RESTError 501" in why for why in refused)
    assert [one for one in of(lab, seen.JobEnded) if one.outcome == "unknown"] == []
    service.stop()


def test_a_catalog_that_is_sick_for_a_while_makes_nothing_gone_and_is_reported(rest_lab):
    lab = rest_lab(POLICY)
    table = with_work(lab, "shop.orders")
    service = lab.settled()
    for hour, kind in enumerate([*UNHEARD, "500", "503", "unheard", "lost", "trickle"], start=4):
        lab.seen.clear()
        # Each of these takes a time-out, or four: a few of them are a while.
        times = 2 if kind in ("silence", "trickle") else 10**6
        sick = lab.front.add("*", "/v1/", kind, times=times)
        service.step(0)
        lab.ahead_ms += 5_000
        service.step(0)

        assert sick.met > 0, kind
        assert of(lab, seen.TrySoon) + of(lab, seen.TableFailed), kind
        assert list(service.fold.tables()) == [uuid_of(table)], kind
        assert not of(lab, seen.TableGone), kind

        lab.front.heal()
        lab.append(table, hour, announce=False)
        lab.ahead_ms += 120_000
        settle(service)

        assert believed(service, uuid_of(table)) == counted(lab.scan()), kind
    service.stop()


def test_with_a_clock_ahead_of_a_java_catalogs_nothing_begins_and_it_says_why(rest_lab):
    """Java takes no snapshot from more than a minute ahead: each job would be for nothing."""
    lab = rest_lab(POLICY)
    with_work(lab, "shop.orders")
    lab.is_ahead_ms = 120_000
    service = started(lab)
    for _ in range(20):
        service.step(0)

    assert service.ledger.operations() == []
    assert service.fold.tally(uuid_of(lab.catalog.load_table("shop.orders"))).verdicts.get("due")
    # Less what its answer took.
    assert re.search(r"(2m|1m 5\ds) ahead of that of the", service.ledger.obstacles()[CLOCK])

    lab.is_ahead_ms = 0
    lab.ahead_ms += 61_000
    settle(service)

    assert len(lab.ours()) == 1
    assert len(lab.read()) == lab.rows
    service.stop()
