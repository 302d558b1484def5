"""A partition whose jobs outlive their deadline goes on in smaller parts, whatever ends the daemon in between."""

import json

from isotherm.contract.identity import PartitionKey
from isotherm.core import observations as seen
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.refusals import Reason, Refusal
from support.held import hold_of
from support.in_process import InProcess
from support.lab import of, settle, started, uuid_of

MINUTE_MS = 60_000


class Slow(InProcess):
    """Rewrites of more than three files outlive their deadline."""

    def __init__(self):
        super().__init__()
        self.read = []

    def start(self, job, description, io_properties):
        super().start(job, description, io_properties)
        self.read.append(job.read_bytes)
        if len(job.data_files) > 3:
            self._done[job.job_id] = Refusal(Reason.DEADLINE, "not done after 3600s, the limit is 3600s")


def large_table(lab):
    table = lab.create()
    for hour in (*[1] * 12, 2, 3, 4):
        lab.append(table, hour)
    return table


def test_the_next_job_reads_half_and_the_rest_goes_on_in_such_parts(lab):
    table = large_table(lab)
    lab.executor = Slow()
    for _ in range(12):
        service = started(lab)
        settle(service)
        lab.ahead_ms += 5 * MINUTE_MS
        kept = [one for one in service.ledger.holds(uuid_of(table)) if one.part is not None]
        service.stop()

    read, ends = lab.executor.read, of(lab, seen.JobEnded)
    slow = [size for size, end in zip(read, ends, strict=True) if end.reason is Reason.DEADLINE]
    assert len(slow) == 2
    assert slow[1] <= slow[0] // 2
    assert max(read[2:]) <= slow[1] // 2
    assert len(ends) > 4
    assert {end.reason for end in ends[2:]} == {Reason.COMMITTED}
    assert [(one.kind, one.failures) for one in kept] == [(HoldKind.QUARANTINE, 0)]
    assert "a larger job outlived its deadline" in of(lab, seen.JobStarted)[-1].why
    held = [one.is_held for one in of(lab, seen.HoldChanged)]
    assert held[:3] == [True, True, False]
    assert dict(lab.held)[kept[0].key] is not None
    assert len(table.refresh().inspect.files()) < 12


def test_what_a_person_has_lifted_has_jobs_as_large_as_before(lab):
    table = large_table(lab)
    lab.executor = Slow()
    service = started(lab)
    settle(service)
    (hold,) = service.ledger.holds(uuid_of(table))
    lab.held.append((hold.key, None))
    settle(service)
    service.stop()

    assert lab.executor.read[0] == lab.executor.read[1]


def test_a_hold_that_a_version_of_before_wrote_says_nothing_of_a_size(lab):
    table = lab.create()
    old = hold_of(table, HoldKind.QUARANTINE, partition=PartitionKey("{}"), until_ms=2**45, failures=1)
    record = {name: getattr(old, name) for name in ("kind", "uuid", "name", "why", "at_ms", "partition")}
    lab.held.append((old.key, json.dumps(record | {"until_ms": old.until_ms, "failures": 1}).encode()))
    service = started(lab)
    settle(service)

    assert service.ledger.holds(uuid_of(table)) == [old]
    service.stop()
