"""Small jobs of a table that have ended are committed together: each ends by itself, whatever befalls another."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import JOB_ID, jobs_of
from isotherm.core import observations as seen
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import Action, ExecutorName, OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.executors import Executors
from isotherm.runtime.config import ExecutorsConfig, LocalExecutorConfig, SparkExecutorConfig
from isotherm.service.jobs import ended_rewrites
from isotherm.service.jobs.ended_rewrites import MOST_JOBS, SMALL_BYTES, SMALL_FILES, WAITS_S, Ended
from isotherm.service.jobs.running_compactions import SMALL_IN_A_SLOT
from isotherm.store.database import to_json
from isotherm.store.ledger import Operation
from support.builders import HOUR
from support.forged import intent
from support.in_process import InProcess
from support.lab import EAGER, START, Lab, of, settle, started, uuid_of, wait_for_children
from support.rewriting import bound, rewritten

DUE = (1, 2, 3)


def hour_key(hour):
    """The partition of an hour."""
    return PartitionKey(f'{{"1000":{int(START.timestamp()) // 3600 + hour}}}')


def filled(lab):
    """A table in which three hours are due and cold."""
    table = lab.create()
    for _ in range(3):
        lab.append(table, *DUE)
    for hour in (9, 10, 11):
        lab.append(table, hour)
    return table


def ours(table):
    return [
        one.summary.additional_properties
        for one in table.refresh().snapshots()
        if JOB_ID in one.summary.additional_properties
    ]


def test_they_are_one_snapshot_that_is_announced_once_and_each_has_its_end(lab):
    table = filled(lab)
    service = started(lab)

    settle(service)

    ended = of(lab, seen.JobEnded)
    assert [one.outcome for one in ended] == [OutcomeKind.DONE] * 3
    assert [one.files_after for one in ended] == [1, 1, 1]
    (said,) = ours(table)
    assert set(jobs_of(said)) == {one.job_id for one in ended}
    assert {one.snapshot_id for one in ended} == {table.current_snapshot().snapshot_id}
    announced = [
        one for one in lab.topic.messages if str(table.current_snapshot().snapshot_id).encode() in one
    ]
    assert len(announced) == 1
    service.stop()


def an_intent(lab, table, hour):
    now_ms = lab.now_ms()
    named = {"at_ms": now_ms, "expires_at_ms": now_ms + 600_000, "partitions": (hour_key(hour),)}
    lab.announce(intent(uuid_of(table), **named))


def test_what_turns_hot_at_the_last_moment_is_left_out_alone(lab):
    """The intent comes while the request is made: the last look finds it."""
    table = filled(lab)
    service = started(lab)
    loads = []

    def meanwhile(real, *arguments):
        loads.append(arguments)
        if len(loads) == 1:
            an_intent(lab, table, 2)
        return real(*arguments)

    service.maintainer.requests.on_load = meanwhile
    for _ in range(30):
        service.step(0)
        wait_for_children(service)

    ends = {one.label: one.outcome for one in of(lab, seen.JobEnded)}
    hot = [label for label in ends if label.endswith("-02")]
    assert len(hot) == 1, ends
    assert ends == {label: OutcomeKind.FAILED if label in hot else OutcomeKind.DONE for label in ends}
    (said,) = ours(table)
    assert len(jobs_of(said)) == 2
    service.stop()


def test_each_of_them_is_found_in_the_table_where_the_answer_is_lost(lab):
    table = filled(lab)
    service = started(lab)

    def landed_and_lost(real, *arguments):
        real(*arguments)
        service.maintainer.requests.on_load = lost  # nobody can look, either
        raise ConnectionError("cut")

    def lost(*_):
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = landed_and_lost
    settle(service)

    ends = [(one.job_id, one.outcome) for one in of(lab, seen.JobEnded)]
    assert [end for _, end in ends] == [OutcomeKind.UNKNOWN] * 3 + [OutcomeKind.DONE] * 3
    assert {job_id for job_id, _ in ends[:3]} == {job_id for job_id, _ in ends[3:]}
    assert {one.state for one in service.ledger.operations()} == {"done"}
    assert len(ours(table)) == 1
    service.stop()


def test_a_mistake_as_a_commit_begins_takes_no_other_job_with_it(lab):
    table = filled(lab)
    service = started(lab)
    real = service.maintainer.start_commit

    def crash(swaps):
        service.maintainer.start_commit = real
        raise RuntimeError(f"a mistake of ours, of {len(swaps)}")

    service.maintainer.start_commit = crash
    for _ in range(20):
        service.step(0)
        wait_for_children(service)
        if len(of(lab, seen.JobEnded)) == 2:
            break

    assert [one.outcome for one in of(lab, seen.JobEnded)] == [OutcomeKind.DONE] * 2
    assert len(ours(table)) == 1
    assert len(of(lab, seen.TableFailed)) == 1
    service.stop()


# --- which go together, and when


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


# --- what begins between two rounds


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


def test_a_policy_that_allows_one_job_at_once_means_one(tmp_path):
    lab = Lab(tmp_path, policy=EAGER + "work: {jobs_at_once: 1}\n")
    local = LocalExecutorConfig(jobs_at_once=4)
    lab.config = lab.config.model_copy(update={"executors": ExecutorsConfig(local=local)})
    filled(lab)
    service = started(lab)
    most = 0
    for _ in range(200):
        service.step(0)
        most = max(most, *service.compactions.by_table().values(), 0)
        if len(of(lab, seen.JobEnded)) == len(DUE):
            break
        wait_for_children(service)

    assert (most, len(of(lab, seen.JobEnded))) == (1, len(DUE))
    service.stop()


def test_a_commit_that_did_something_holds_up_no_other_for_the_job_that_was_left_out(lab):
    """It took long, and the job that was first in it was refused."""
    table = filled(lab)
    service = started(lab)

    def slow(real, *arguments):
        lab.ahead_ms += 60_000
        return real(*arguments)

    def meanwhile(real, *arguments):
        if not loads:
            loads.append(1)
            an_intent(lab, table, DUE[-1])
        return real(*arguments)

    loads = []
    service.maintainer.requests.on_load, service.maintainer.requests.on_commit = meanwhile, slow
    for _ in range(20):
        service.step(0)
        wait_for_children(service)
        if len(of(lab, seen.JobEnded)) == len(DUE):
            break

    first, *others = of(lab, seen.JobEnded)
    assert (first.label[-2:], first.outcome) == ("03", OutcomeKind.FAILED)
    assert [one.outcome for one in others] == [OutcomeKind.DONE] * 2
    assert service.compactions.operations.may_commit(Action.COMPACT, "next")
    service.stop()


def turns(service):
    for _ in range(20):
        service.step(0)
        wait_for_children(service)


class Hangs(InProcess):
    """A cluster that takes jobs and ends none."""

    def poll(self):
        return []


def test_what_waits_for_the_cluster_keeps_no_small_job_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(ended_rewrites, "SMALL_BYTES", 0)  # none shares a slot here
    lab = Lab(tmp_path)
    table = lab.create()
    for _ in range(3):
        lab.append(table, 1, 2, rows=5_000)
    for hour in (9, 10, 11):
        lab.append(table, hour)
    sizes = {
        row["partition"]["at_hour"]: row["total_data_file_size_in_bytes"]
        for row in table.refresh().inspect.partitions().to_pylist()
    }
    border = max(sizes.values()) // 2
    spark = SparkExecutorConfig(remote="sc://away", from_bytes=border, jobs_at_once=1)
    lab.config = lab.config.model_copy(update={"executors": ExecutorsConfig(spark=spark)})
    service = lab.service(executor=Executors(lab.executor, Hangs()))
    service.start()
    turns(service)
    assert len(service.compactions) == 1  # the cluster has one slot
    for hour in (3, 3, 3, 12, 13, 14):
        lab.append(table, hour)
    turns(service)

    assert [one.label[-2:] for one in of(lab, seen.JobEnded)] == ["03"]
    assert len(service.compactions) == 1
    service.stop()


def test_the_limits_of_a_policy_hold_for_this_machine_and_the_cluster_together(tmp_path):
    """One large job and one small one, both due in the same round."""
    lab = Lab(tmp_path, policy=EAGER + "work: {jobs_at_once: 1}\n")
    table = lab.create()
    for _ in range(3):
        lab.append(table, 1, rows=5_000)
        lab.append(table, 3)
    for hour in (9, 10, 11):
        lab.append(table, hour)
    spark = SparkExecutorConfig(remote="sc://away", from_bytes=50_000)
    lab.config = lab.config.model_copy(update={"executors": ExecutorsConfig(spark=spark)})
    service = lab.service(executor=Executors(InProcess(), InProcess()))
    service.start()
    most = 0
    for _ in range(60):
        service.step(0)
        most = max(most, *service.compactions.by_table().values(), 0)
        wait_for_children(service)

    assert (most, len(of(lab, seen.JobEnded))) == (1, 2)
    service.stop()


def test_a_policy_says_where_jobs_of_its_table_run_and_there_they_stay(tmp_path):
    """Small ones on the cluster, by name: they were let in there, so there they count, whatever they turn out to read."""
    lab = Lab(tmp_path, policy=EAGER.replace("compact: {", "compact: {executor: spark, "))
    table = lab.create()
    for _ in range(3):
        lab.append(table, 1, 2, 3)
    for hour in (9, 10, 11):
        lab.append(table, hour)
    spark = SparkExecutorConfig(remote="sc://away", jobs_at_once=2)
    lab.config = lab.config.model_copy(update={"executors": ExecutorsConfig(spark=spark)})
    cluster = Hangs()
    service = lab.service(executor=Executors(InProcess(), cluster))
    service.start()
    turns(service)

    assert len(cluster.running()) == 2
    assert service.compactions.slots_taken(ExecutorName.SPARK) == 2
    assert service.compactions.slots_taken(ExecutorName.LOCAL) == 0
    assert {one.executor for one in service.ledger.operations()} == {ExecutorName.SPARK}
    service.stop()
