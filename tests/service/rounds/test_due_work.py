"""What a round has planned begins at the head that there is by then, in every slot that is free."""

import pytest

from isotherm.core import observations as seen
from support.lab import Lab, of, settle, started, uuid_of

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
