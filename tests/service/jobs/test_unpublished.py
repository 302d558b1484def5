"""Work that somebody looks at before it is published keeps a table's files where they are, and costs nothing meanwhile."""

import pytest

from isotherm.core.model.decisions import Verdict
from isotherm.core.observations import JobStarted
from isotherm.core.units import DAY_MS, HOUR_MS, MINUTE_MS
from support.lab import Lab, started, uuid_of


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def audited(lab):
    """A table of which two partitions are due, and a branch that goes on from its head."""
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        lab.append(table, hour)
    table.manage_snapshots().create_branch(table.refresh().current_snapshot().snapshot_id, "audit").commit()
    table.refresh().append(table.scan().to_arrow(), branch="audit")
    return table.refresh()


def goes_on(lab, service, span_ms):
    """How many rewrites begin in that time."""
    before = sum(isinstance(one, JobStarted) for one in lab.seen)
    for _ in range(span_ms // (20 * MINUTE_MS)):
        service.step(0)
        service.maintainer.wait(1)
        service.step(0)
        lab.ahead_ms += 20 * MINUTE_MS
    return sum(isinstance(one, JobStarted) for one in lab.seen) - before


def publish(table):
    table.manage_snapshots().set_current_snapshot(ref_name="audit").commit()


def drop(table):
    table.manage_snapshots().remove_branch("audit").commit()


@pytest.mark.parametrize("what_comes", [publish, drop])
def test_nothing_is_rewritten_before_a_branch_is_published_or_dropped(lab, what_comes):
    """Each due partition was rewritten again and again, and thrown away: 17 times in twelve hours."""
    table = audited(lab)
    service = started(lab)

    assert goes_on(lab, service, 3 * HOUR_MS) == 0
    assert Verdict.WAITING in {row.verdict for row in service.fold.partitions(uuid_of(table))}

    what_comes(table)
    assert goes_on(lab, service, 3 * HOUR_MS) > 0


def test_nobody_waits_for_a_branch_for_more_than_a_day(lab):
    audited(lab)
    service = started(lab)

    assert goes_on(lab, service, DAY_MS - 2 * HOUR_MS) == 0
    assert goes_on(lab, service, 4 * HOUR_MS) > 0
