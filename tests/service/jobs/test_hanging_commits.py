"""Commits that get no answer cost neither the loop its turns, nor the disk a copy of the files each minute."""

from itertools import pairwise
from threading import Event

import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from requests.exceptions import ReadTimeout

from isotherm.core import observations as seen
from isotherm.core.model.jobs import OutcomeKind
from support.lab import EAGER, EXPIRING, Lab, of, started, uuid_of, wait_for_children

TIME_OUT_S = 30


def a_lab(tmp_path, policy=EAGER, jobs_at_once=1):
    lab = Lab(tmp_path, policy=policy)
    loop = lab.config.loop.model_copy(update={"plan_every_s": 10.0, "poll_tables_every_s": 600.0})
    local = lab.config.executors.local.model_copy(update={"jobs_at_once": jobs_at_once})
    executors = lab.config.executors.model_copy(update={"local": local})
    lab.config = lab.config.model_copy(update={"loop": loop, "executors": executors})
    return lab


def turns(lab, service, count, step_s=10):
    """Turn the loop. Returns how long each turn took."""
    took_s = []
    for _ in range(count):
        began_s = lab.monotonic_s()
        service.step(0)
        took_s.append(lab.monotonic_s() - began_s)
        if len(service.compactions) or len(service.expiries):
            wait_for_children(service)
        lab.ahead_ms += 1000 * step_s
    return took_s


def hang(lab, service):
    """From now on every commit hangs until it is given up. Returns when they were sent."""
    sent_s = []

    def commit(*_):
        sent_s.append(lab.monotonic_s())
        lab.ahead_ms += 1000 * TIME_OUT_S
        raise ReadTimeout("Read timed out")

    service.maintainer.requests.on_commit = commit
    return sent_s


@pytest.mark.parametrize("is_written", [False, True], ids=["rest", "stream"])
def test_a_partition_whose_commit_nobody_knows_the_end_of_waits_for_longer_each_time(tmp_path, is_written):
    lab = a_lab(tmp_path)
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)

    def lost(*_):
        raise CommitStateUnknownException("504 Gateway Timeout")

    service.maintainer.requests.on_commit = lost
    for _ in range(40):
        turns(lab, service, 3, step_s=20)
        if is_written:  # the head moves on, so that each is known to be lost
            lab.append(table, 9)
        assert len(of(lab, seen.JobStarted)) <= 6
    began = len(of(lab, seen.JobStarted))
    service.maintainer.requests.on_commit = None
    lab.ahead_ms += 3_600_000
    turns(lab, service, 20)

    assert began >= 3
    assert of(lab, seen.JobEnded)[-1].outcome is OutcomeKind.DONE
    assert service.ledger.holds(uuid_of(table)) == []
    service.stop()
    lab.executor.stop()


@pytest.mark.parametrize("is_written", [False, True], ids=["rest", "stream"])
def test_commits_that_hang_have_a_part_of_the_loop(tmp_path, is_written):
    lab = a_lab(tmp_path, jobs_at_once=4)
    tables = [lab.create(f"shop.t{number}") for number in range(4)]
    for table in tables:
        for hour in (1, 1, 1, 2, 2, 2, 3, 3, 3, 9, 9):
            lab.append(table, hour)
    service = started(lab)
    sent_s, took_s = hang(lab, service), []
    for _ in range(25):
        took_s += turns(lab, service, 6, step_s=4)
        if is_written:
            for table in tables:
                lab.append(table, 9)
        held_s = sum(one for one in took_s if one >= TIME_OUT_S)
        assert held_s <= (sum(took_s) + 600) / 4

    assert len(sent_s) >= 4
    assert max(took_s) < 2 * TIME_OUT_S
    service.stop()
    lab.executor.stop()


def test_a_commit_that_hung_for_long_beside_the_loop_keeps_other_tables_waiting_for_two_minutes(tmp_path):
    lab = a_lab(tmp_path)
    lab.commit_wait_s = 0
    hanging, other = lab.create("shop.hanging"), lab.create("shop.other")
    for hour in (1, 1, 1, 9, 9):
        lab.append(hanging, hour)
    lab.append(other, 1)
    service, sent, committed_s, is_over = started(lab), Event(), [], Event()

    def commit(real, table, *more):
        if table.name()[-1] == "hanging":
            sent.set()
            assert is_over.wait(60)
            raise ReadTimeout("Read timed out")
        committed_s.append(lab.monotonic_s())
        return real(table, *more)

    service.maintainer.requests.on_commit = commit
    while not sent.is_set():
        turns(lab, service, 1, step_s=1)
    lab.ahead_ms += 590_000
    for hour in (1, 1, 9, 9):
        lab.append(other, hour)
    is_over.set()
    while not of(lab, seen.JobEnded):
        turns(lab, service, 1, step_s=1)
    ended_s = lab.monotonic_s()
    turns(lab, service, 30)

    assert 100 < committed_s[0] - ended_s < 180
    service.stop()
    lab.executor.stop()


def test_a_commit_that_hangs_while_the_head_moves_is_sent_once(tmp_path):
    lab = a_lab(tmp_path)
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service, sent = started(lab), []

    def commit(*_):
        sent.append(lab.monotonic_s())
        lab.ahead_ms += 1000 * TIME_OUT_S
        lab.append(table, 9)
        raise ReadTimeout("Read timed out")

    service.maintainer.requests.on_commit = commit
    while not of(lab, seen.JobEnded):
        turns(lab, service, 1)

    assert len(sent) == 1
    assert [one.outcome for one in of(lab, seen.JobEnded)] == [OutcomeKind.FAILED]
    service.stop()
    lab.executor.stop()


def test_expiries_that_hang_have_a_part_of_the_loop(tmp_path):
    lab = a_lab(tmp_path, EXPIRING.replace("compact: {min_files: 3}", "compact: {enabled: false}"))
    for number in range(4):
        table = lab.create(f"shop.t{number}")
        for _ in range(5):
            lab.append(table, 1)
    service = started(lab)
    sent_s = hang(lab, service)
    turns(lab, service, 300, step_s=1)
    pauses_s = [after - before for before, after in pairwise(sent_s)]

    assert len(sent_s) == 3
    assert min(pauses_s) >= 5 * TIME_OUT_S
    service.stop()
    lab.executor.stop()
