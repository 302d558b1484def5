"""Another version is installed below a daemon: it begins no rewrite, and goes on where the code is its own."""

from itertools import pairwise

from isotherm.core import observations as seen
from isotherm.core.model.outside import Outside
from support.lab import of, settle


def test_while_other_code_lies_below_it_a_daemon_begins_no_rewrite_and_says_so_once(lab):
    """Each was refused, after a program was started for it, and its partition waited for an hour after the restart."""
    table = lab.create()
    for hour in (*[1] * 12, 2, 3, 4):
        lab.append(table, hour)
    is_other, asked_at_s = True, []

    def is_other_code():
        asked_at_s.append(lab.monotonic_s())
        return is_other

    service = lab.service(is_other_code=is_other_code)
    service.start()
    windows_asked: list[object] = []
    service.rounds.ask = windows_asked.append
    for _ in range(30):
        service.step(0)
        lab.ahead_ms += 20_000

    told = [one for one in of(lab, seen.TrySoon) if one.kind is Outside.CODE]
    assert of(lab, seen.JobStarted) == []
    assert windows_asked == [], "a writer would wait for nothing"
    assert len(told) == 1
    assert "restart" in told[0].error
    assert all(Outside.CODE in one.away for one in of(lab, seen.RoundPlanned))
    assert service.ledger.holds() == []
    is_other = False
    lab.ahead_ms += 5 * 60_000
    settle(service)
    service.stop()

    assert of(lab, seen.JobStarted)
    assert windows_asked
    assert all(later - one >= 60 for one, later in pairwise(asked_at_s))
