"""A job or a binding that takes the daemon with it counts against its partition, and a slow one does not."""

import pytest

from isotherm.core import observations as seen
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.model.refusals import Refusal
from isotherm.core.partition_backoff import OUTAGES
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.hanging import NotBegunError
from isotherm.service.ports import Unavailable
from support.in_process import AtOnce, InProcess
from support.lab import of, settle, started, uuid_of, with_a_job


def test_a_job_that_takes_the_daemon_with_it_counts_against_its_partition(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    begun = 0
    for _ in range(12):
        service = started(lab)
        for _ in range(12):
            service.step(0)
            service.maintainer.wait(0)
            if service.compactions.start_bound():
                break
        begun += len(lab.executor.running())
        # As SIGKILL for the whole group: the child is gone, and nothing is written down.
        for job_id in list(lab.executor.running()):
            lab.executor.cancel(job_id)
        service.fold.close()
        service.ledger.close()
        lab.ahead_ms += 61_000

    assert begun < 6
    service = started(lab)
    service.step(0)
    (quarantine,) = service.ledger.quarantined(uuid_of(table)).values()
    assert quarantine.failures >= 3
    assert "crashed" in quarantine.why
    service.stop()


def test_the_job_of_a_daemon_that_died_is_ended_where_it_may_run_still(lab):
    """A task on a cluster outlives its daemon; the next one says so before it begins another on the same files."""

    class Outlives(InProcess):
        def __init__(self):
            super().__init__()
            self.abandoned = []

        def cancel_abandoned(self, job):
            self.abandoned.append(job.job_id)

    lab.executor = Outlives()
    _, service = with_a_job(lab)
    (job_id,) = lab.executor.running()
    assert lab.executor.abandoned == []
    # As SIGKILL: nothing is written down.
    lab.executor.stop()
    service.fold.close()
    service.ledger.close()

    later = started(lab)
    settle(later)

    assert lab.executor.abandoned == [job_id]
    later.stop()


def test_a_binding_that_takes_the_daemon_with_it_counts_against_its_partition(lab):
    """As one does whose manifests hold more than there is memory."""
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    begun = 0
    for _ in range(12):
        service = started(lab)
        for _ in range(12):
            service.step(0)
            if len(service.compactions):
                begun += 1
                break
        service.fold.close()
        service.ledger.close()
        lab.ahead_ms += 61_000

    assert begun < 6
    service = started(lab)
    service.step(0)
    (quarantine,) = service.ledger.quarantined(uuid_of(table)).values()
    assert quarantine.failures >= 3
    assert "crashed" in quarantine.why
    assert service.ledger.bytes_read_within(86_400_000, service.now_ms()) == 0
    service.stop()


def test_a_binding_that_lasts_for_rounds_is_no_crash(lab):
    """It has a thread to itself and others wait for it."""
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = started(lab)
    bound = service.maintainer.bound
    service.maintainer.bound = list
    for _ in range(8):
        service.step(0)
        lab.ahead_ms += 11_000
    service.maintainer.bound = bound
    settle(service)

    assert [one.outcome for one in of(lab, seen.JobEnded)] == [OutcomeKind.DONE]
    assert service.ledger.quarantined(uuid_of(table)) == {}
    service.stop()


@pytest.mark.parametrize(
    ("error", "kind"),
    [(NotBegunError("16 threads hang"), Unavailable), (TimeoutError("not done after 600s"), Refusal)],
)
def test_a_binding_that_was_given_up_is_no_fault_of_its_partition(lab, error, kind):
    """Or that was never begun, because too many threads hang already."""

    class Hanging(AtOnce):
        def beside(self, _):
            return GivenUp()

    class GivenUp:
        def start(self, name, *_):
            self.name = name

        def ended(self):
            return [(self.name, error)]

    lab.threads = Hanging()
    table = lab.create()
    lab.append(table, 1)
    maintainer = lab.maintainer(lab.executor)
    key = next(iter(lab.scan()))
    maintainer.start_binding(
        loaded_table(table, "shop.orders"), key, "job", "hour 1", Take(), 1, "hash", "why"
    )

    ((_, result),) = maintainer.bound()
    assert isinstance(result, kind)
    assert str(error) in str(result)
    assert result.reason in OUTAGES if isinstance(result, Refusal) else True
