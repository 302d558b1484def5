"""Small jobs of a table that have ended are committed together: each ends by itself, whatever befalls another."""

from isotherm.contract.summary import jobs_of
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action, OutcomeKind
from support.forged import intent
from support.lab import of, settle, started, uuid_of, wait_for_children
from support.three_hours import DUE, filled, hour_key, ours


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
