"""Rounds come at their pace, and sooner where a job has ended and others wait for its place."""

from isotherm.core.observations import JobEnded
from isotherm.service.rounds.round_pace import RoundPace
from support.builders import HOUR
from support.lab import Lab, started
from support.lab import of as seen_of

EVERY_S = 10.0


def after_a_round(*, leaves_work, lasted_s=0.5):
    pace = RoundPace(EVERY_S)
    pace.round_ended(100.0, lasted_s, 2, leaves_work=leaves_work)
    return pace


def test_the_first_round_is_due_at_once_and_the_next_one_at_its_time():
    assert RoundPace(EVERY_S).is_time(0.0, has_left=False)

    pace = after_a_round(leaves_work=True)

    assert [pace.is_time(at_s, has_left=False) for at_s in (100.0, 109.9, 110.0)] == [False, False, True]


def test_where_a_job_has_ended_and_others_wait_it_comes_sooner():
    pace = after_a_round(leaves_work=True)
    pace.jobs_run(1)

    assert [pace.is_time(at_s, has_left=False) for at_s in (100.4, 100.5)] == [False, True]

    pace.round_ended(101.0, 0.1, 2, leaves_work=True)
    pace.jobs_run(2)
    assert not pace.is_time(105.0, has_left=False)


def test_what_the_last_round_has_left_takes_the_free_slot_first():
    pace = after_a_round(leaves_work=True)
    pace.jobs_run(1)

    assert pace.has_room
    assert not pace.is_time(109.9, has_left=True)
    assert pace.is_time(110.0, has_left=True)
    pace.refilled(2)
    assert not pace.has_room
    pace.jobs_run(2)
    assert not pace.has_room
    pace.jobs_run(1)
    assert pace.has_room


def test_where_nobody_waits_it_does_not():
    pace = after_a_round(leaves_work=False)
    pace.jobs_run(1)

    assert not pace.is_time(109.0, has_left=False)


def test_all_that_is_due_is_compacted_between_two_rounds_at_the_daemons_own_pace(tmp_path):
    """Not one job for each pause: a thousand small partitions would take hours."""
    lab = Lab(tmp_path)
    lab.config = lab.config.model_copy(
        update={"loop": lab.config.loop.model_copy(update={"plan_every_s": 3600.0})}
    )
    table = lab.create()
    for hours in ((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (8,), (9,), (10,)):
        lab.append(table, *hours)
    service = started(lab)
    while not len(service.compactions):
        service.step(0)
        lab.ahead_ms += HOUR

    until_ms = lab.ahead_ms + HOUR // 2
    while lab.ahead_ms < until_ms and len(seen_of(lab, JobEnded)) < 4:
        service.step(0)
        lab.ahead_ms += 100
        service.maintainer.wait(0.01)

    assert len(seen_of(lab, JobEnded)) == 4
    service.stop()
