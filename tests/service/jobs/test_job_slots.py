"""How many jobs run at once, here and on a cluster, and which of them runs where."""

from isotherm.core import observations as seen
from isotherm.core.model.jobs import ExecutorName
from isotherm.iceberg.compaction.executors import Executors
from isotherm.runtime.config import ExecutorsConfig, LocalExecutorConfig, SparkExecutorConfig
from isotherm.service.jobs import ended_rewrites
from support.in_process import InProcess
from support.lab import EAGER, Lab, of, started, wait_for_children
from support.three_hours import DUE, filled


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
