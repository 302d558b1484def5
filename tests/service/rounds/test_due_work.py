"""What a round has planned begins at the head that there is by then, in every slot that is free; what it has left, before the next round."""

import pytest

from isotherm.core import observations as seen
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import OutcomeKind
from isotherm.service.jobs.running_compactions import SMALL_IN_A_SLOT
from isotherm.store.database import to_json
from support.builders import HOUR
from support.lab import Lab, of, settle, started, uuid_of
from support.three_hours import ours

HOURS = (1, 2, 3, 4)


class Round:
    """Four hours are due; before they begin, some are written by somebody who does not say so."""

    def __init__(self, tmp_path, *written):
        self.lab = Lab(tmp_path)
        # Nobody is silent: in rounds the catalog is asked for none.
        loop = self.lab.config.loop.model_copy(update={"poll_tables_every_s": 3600})
        self.lab.config = self.lab.config.model_copy(update={"loop": loop})
        table = self.lab.create()
        for _ in range(3):
            self.lab.append(table, *HOURS)
        self.service = service = started(self.lab)
        service.step(0)
        for hour in (20, 21, 22):
            self.lab.append(table, hour)
        service.consume(service.events.poll(0))
        self.hot = []
        """Why each partition is hot at the moment in which it begins to be bound, or None."""
        binds, drains = service.maintainer.start_binding, service.events.drain

        def start_binding(loaded, partition, *rest, **more):
            row = service.fold.table(uuid_of(table))
            self.hot.append(service.verdicts.why_hot(row, partition, service.verdicts.policy_of(row).policy))
            return binds(loaded, partition, *rest, **more)

        def drain(timeout_s):
            # Asked for once all is planned, and before anything begins.
            self.lab.append(table, *written, announce=False)
            service.events.drain = drains
            return drains(timeout_s)

        service.maintainer.start_binding, service.events.drain = start_binding, drain
        service.compactions.last_look.is_blind = True
        self.lab.ahead_ms += 11_000
        while service.events.drain is drain:
            service.step(0)


@pytest.mark.parametrize("written", [(1, 2, 3), (2, 3, 4), (1, 4)])
def test_what_somebody_wrote_since_it_was_planned_does_not_begin_and_takes_no_slot(tmp_path, written):
    """The first one that begins has the catalog asked, and the others know it, too."""
    one = Round(tmp_path, *written)
    cold = [hour for hour in HOURS if hour not in written]

    assert one.hot == [None] * len(cold)
    settle(one.service)
    assert sorted(int(job.label[-2:]) for job in of(one.lab, seen.JobEnded)) == cold
    assert not one.service.ledger.holds()
    one.service.stop()


def many_due(tmp_path):
    """A table with more that is due than begins at once, and a daemon whose next round is an hour away."""
    lab = Lab(tmp_path)
    loop = lab.config.loop.model_copy(update={"plan_every_s": 3600.0})
    lab.config = lab.config.model_copy(update={"loop": loop})
    table = lab.create()
    for _ in range(3):
        lab.append(table, *range(1, 2 * SMALL_IN_A_SLOT + 1))
    for hour in (20, 21, 22):
        lab.append(table, hour)
    service = started(lab)
    service.step(0)
    for _ in range(20):
        if not service.rounds.due.has_left:
            lab.ahead_ms += HOUR
            service.step(0)
    assert service.rounds.due.has_left
    return lab, table, service


def test_what_is_left_begins_in_the_slots_that_become_free(tmp_path):
    lab, table, service = many_due(tmp_path)
    rounds, begun = len(of(lab, seen.RoundPlanned)), len(service.compactions)
    assert begun == SMALL_IN_A_SLOT
    for _ in range(200):
        if service.rounds.due.has_left:
            service.step(0)
            service.maintainer.wait(0.1)

    assert not service.rounds.due.has_left
    assert len(of(lab, seen.RoundPlanned)) == rounds
    settle(service)
    ended = of(lab, seen.JobEnded)
    assert [one.outcome for one in ended] == [OutcomeKind.DONE] * 2 * SMALL_IN_A_SLOT
    assert len(ours(table)) < len(ended)
    service.stop()


@pytest.mark.parametrize("happens", ["written", "paused", "given away"])
def test_what_is_left_is_decided_once_more_before_it_begins(tmp_path, happens):
    lab, table, service = many_due(tmp_path)
    begun, real = [], service.maintainer.start_binding

    def start_binding(loaded, partition, *arguments, **more):
        begun.append(partition)
        real(loaded, partition, *arguments, **more)

    service.maintainer.start_binding = start_binding
    if happens == "written":
        lab.append(table, *range(1, 2 * SMALL_IN_A_SLOT + 1))
        service.consume(service.events.poll(0))
        assert service.rounds.confirm(
            "shop.orders"
        )  # as a last look does: the head is known, and no verdict on it
    elif happens == "paused":
        hold = Hold(HoldKind.PAUSE, uuid_of(table), "shop.orders", "somebody said so", lab.now_ms())
        lab.held.append((hold.key, to_json(hold).encode()))
    else:
        service.events.elsewhere.add(uuid_of(table))
    for _ in range(60):
        service.step(0)
        service.maintainer.wait(0.1)

    assert begun == []
    service.stop()
