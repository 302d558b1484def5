"""Which jobs that have ended go into one commit, and how long a small one waits for others."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import Action
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.jobs.ended_rewrites import MOST_JOBS, SMALL_BYTES, SMALL_FILES, WAITS_S, Ended
from isotherm.store.ledger import Operation
from support.rewriting import bound, rewritten
from support.three_hours import DUE, filled, hour_key


@pytest.fixture
def three(lab):
    """Three jobs with their operations, and what they wrote."""
    table = filled(lab).refresh()
    jobs = [bound(table, hour_key(hour)) for hour in DUE]
    running = {job.job_id: (operation_of(job), job) for job in jobs}
    return running, {job.job_id: rewritten(table, job) for job in jobs}


def operation_of(job):
    return Operation(
        job.job_id,
        job.table,
        Action.COMPACT,
        job.partition,
        job.partition_label,
        job.why,
        job.policy_hash,
        job.base_snapshot_id,
        0,
        job.read_bytes,
        len(job.data_files),
    )


def test_a_small_one_waits_for_others_of_its_table_and_not_for_long(three):
    running, rewrites = three
    first = next(iter(running))
    uuid = running[first][1].table.uuid
    ended = Ended()
    assert ended.ready(running, {uuid}, 0.0) is None

    ended.extend([(first, rewrites[first])], 100.0)

    assert ended.ready(running, {uuid}, 100.5) is None
    assert ended.ready(running, {uuid}, 100.0 + WAITS_S) == first
    assert ended.ready(running, {"another"}, 100.0) == first
    assert ended.ready(running, set(), 100.0) == first
    operation, job = running[first]
    for large in ({"bytes_planned": SMALL_BYTES + 1}, {"files_planned": SMALL_FILES + 1}):
        assert ended.ready({first: (replace(operation, **large), job)}, {uuid}, 100.0) == first


def test_what_was_refused_or_cancelled_waits_for_nobody(three):
    running, rewrites = three
    first, second, _ = running
    uuid = running[first][1].table.uuid
    ended = Ended()
    ended.extend([(first, rewrites[first]), (second, Refusal(Reason.KILLED, "so"))], 100.0)

    assert ended.ready(running, {uuid}, 100.0) == second
    ended.pop(second)
    assert ended.ready({}, {uuid}, 100.0) == first


def test_only_what_is_of_one_table_policy_and_partition_each_goes_together(three):
    running, rewrites = three
    (first, (_, job)), (second, (_, other)), (third, _) = running.items()

    def beside(**changes):
        ended = Ended()
        ended.extend(rewrites.items(), 100.0)
        ended.pop(first)
        changed = running | {second: (None, replace(other, **changes))}
        return {swap.job.job_id for swap in ended.pop_beside(job, changed)}, set(ended)

    assert beside() == ({second, third}, set())
    assert beside(policy_hash="another") == ({third}, {second})
    assert beside(partition=job.partition) == ({third}, {second})
    assert beside(partition=PartitionKey("{}")) == ({third}, {second})
    assert beside(table=replace(job.table, uuid="another")) == ({third}, {second})
    assert beside(bystanders=frozenset((f"{number}", None) for number in range(10_000)))[0] <= {third}


def test_a_move_and_a_compaction_of_where_it_goes_have_commits_of_their_own(three):
    """Two that move rows into one partition may share one."""
    running, rewrites = three
    (first, (_, job)), (second, (_, other)), (third, _) = running.items()
    day = PartitionKey('{"1001":7}')

    def beside(first_outputs=(), second_outputs=(), **changes):
        ended = Ended()
        ended.extend(rewrites.items(), 100.0)
        ended.pop(first)
        changed = running | {second: (None, replace(other, outputs=second_outputs, **changes))}
        found = ended.pop_beside(replace(job, outputs=first_outputs), changed)
        return {swap.job.job_id for swap in found}

    assert beside((day,), (day,)) == {second, third}
    assert beside((day,), partition=day) == {third}
    assert beside((), (job.partition,)) == {third}


def test_a_commit_has_no_more_jobs_than_are_looked_through_quickly(three):
    running, rewrites = three
    first, job, rewrite = next(iter(running)), running[next(iter(running))][1], next(iter(rewrites.values()))
    many = {
        f"j{number}": (
            running[first][0],
            replace(job, job_id=f"j{number}", partition=PartitionKey(f'{{"1000":{number}}}')),
        )
        for number in range(2 * MOST_JOBS)
    }
    ended = Ended()
    ended.extend(((job_id, rewrite) for job_id in many), 100.0)

    assert ended.ready(many, {job.table.uuid}, 100.0) == "j0"
    assert len(ended.pop_beside(running[first][1], many)) == MOST_JOBS - 1
    assert len(ended) == MOST_JOBS + 1
