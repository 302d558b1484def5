"""A mistake of ours at the end of one table's work keeps no other table's work of that kind waiting."""

from pathlib import Path

import pytest

from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action
from isotherm.core.model.refusals import Reason
from isotherm.store import Ledger
from support.lab import EXPIRING, Lab, of, uuid_of, wait_for_children

EXPIRY = EXPIRING.replace("compact: {min_files: 3}", "compact: {enabled: false}")
SEARCH = """
tables: "*"
compact: {enabled: false}
expire: {enabled: false}
orphans: {mode: apply, older_than: 1d, every: 1d}
"""
NAMES = ("shop.first", "shop.second")
DAY_MS = 86_400_000


class Failing(Ledger):
    """A ledger at which we make a mistake for one table: a call of one kind fails, once."""

    def __init__(self, path, call):
        super().__init__(path)
        self.call = call
        self.uuid = ""

    def _fail(self, call, uuid):
        if (call, uuid) == (self.call, self.uuid):
            self.uuid = ""
            raise RuntimeError("a mistake")

    def mark(self, uuid, *arguments, **options):
        self._fail("mark", uuid)
        super().mark(uuid, *arguments, **options)

    def mark_found(self, uuid, *arguments):
        self._fail("mark_found", uuid)
        return super().mark_found(uuid, *arguments)

    def waiting_among(self, uuid, paths):
        self._fail("waiting_among", uuid)
        return super().waiting_among(uuid, paths)


def ends(lab, action):
    return [(one.table.name, one.reason) for one in of(lab, seen.JobEnded) if one.action is action]


def until_both_have_ended(lab, service, action, reason):
    """Turn the loop until the work of both tables has come to this end."""
    for _ in range(200):
        service.step(0)
        wait_for_children(service)
        lab.ahead_ms += 300_000
        if {(name, reason) for name in NAMES} <= set(ends(lab, action)):
            return
    raise AssertionError("not both have ended")


def told(lab):
    return [(one.name, one.error, one.doing[:11]) for one in of(lab, seen.TableFailed)]


def test_an_expiry_whose_marks_fail_is_let_go_and_keeps_no_other_waiting(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRY)
    tables = [lab.create(name) for name in NAMES]
    for table in tables:
        for _ in range(5):
            lab.append(table, 1)
    ledger = Failing(tmp_path / "state" / "ledger.db", "mark")
    ledger.uuid = uuid_of(tables[0])
    service = lab.service(ledger=ledger)
    service.start()
    until_both_have_ended(lab, service, Action.EXPIRE, Reason.COMMITTED)

    assert told(lab) == [(NAMES[0], "RuntimeError: a mistake", "ending job ")]
    assert ends(lab, Action.EXPIRE)[0] == (NAMES[1], Reason.COMMITTED), "the other one did not wait for it"
    assert ends(lab, Action.EXPIRE)[1] == (NAMES[0], Reason.CANCELLED), "looked up as after a crash"
    service.stop()


@pytest.mark.parametrize(
    ("call", "orphans", "reason"),
    [("mark_found", 1, Reason.COMMITTED), ("waiting_among", 60, Reason.ORPHANS)],
)
def test_a_search_whose_end_fails_is_let_go_and_keeps_no_other_waiting(tmp_path, call, orphans, reason):
    lab = Lab(tmp_path, policy=SEARCH)
    tables = [lab.create(name) for name in NAMES]
    for table in tables:
        lab.append(table, *range(8))
        for number in range(orphans):
            (Path(normalised(table.location())) / "data" / f"{number}.parquet").write_bytes(b"nobody's")
    ledger = Failing(tmp_path / "state" / "ledger.db", call)
    ledger.uuid = uuid_of(tables[0])
    service = lab.service(ledger=ledger)
    service.start()
    lab.ahead_ms += 3 * DAY_MS
    until_both_have_ended(lab, service, Action.REMOVE_ORPHANS, reason)

    assert told(lab) == [(NAMES[0], "RuntimeError: a mistake", "ending job ")]
    assert ends(lab, Action.REMOVE_ORPHANS)[0] == (NAMES[0], Reason.CRASHED), "looked up as after a crash"
    service.stop()
