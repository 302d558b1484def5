"""What a replay looks at in a round."""

from isotherm.core.model.decisions import Decision, Verdict
from isotherm.core.model.jobs import Action
from isotherm.core.replay.lookups import DUE_AT_ONCE, KeptDecisions
from support.builders import key

MANY = 1000


def due(number, score, verdict=Verdict.DUE):
    return Decision(Action.COMPACT, key(number), f"hour {number}", verdict, score, "a test")


def backlog():
    """A thousand that are due: the longer they have been so, the lower is their score."""
    kept = KeptDecisions([])
    kept.keep([due(number, 1.0 + number) for number in range(MANY)])
    return kept


def test_of_a_long_backlog_those_with_the_highest_scores_and_those_that_wait_longest_are_decided_again():
    half = DUE_AT_ONCE // 2
    kept = backlog()

    first = {key(number) for number in (*range(half), *range(MANY - half, MANY))}
    assert kept.awake(0, None, 0) == first
    assert kept.awake(0, None, 0) == first


def test_what_is_not_due_any_more_makes_room_for_the_next():
    half = DUE_AT_ONCE // 2
    kept = backlog()
    gone = [*range(10), *range(MANY - 10, MANY)]
    kept.keep([due(number, 0.0, Verdict.CLEAN) for number in gone[:10]])
    for number in gone[10:]:
        kept.forget(key(number))

    assert kept.awake(0, None, 0) == {
        key(number) for number in (*range(10, 10 + half), *range(MANY - 10 - half, MANY - 10))
    }


def test_what_is_due_again_waits_from_then_on():
    kept = backlog()
    kept.keep([due(0, 0.0, Verdict.CLEAN)])
    kept.keep([due(0, 1.0)])

    assert key(0) not in kept.awake(0, None, 0)


def test_a_short_backlog_is_decided_as_a_whole():
    kept = KeptDecisions([])
    kept.keep([due(number, 1.0) for number in range(DUE_AT_ONCE)])

    assert len(kept.awake(0, None, 0)) == DUE_AT_ONCE
