"""The laws of which policy is chosen of those that were tried, and why, in words."""

from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from isotherm.contract.summary import Origin
from isotherm.core.policy.policy import Policy
from isotherm.core.replay.candidates import Candidate
from isotherm.core.replay.policy_choice import AS_GOOD, WORTH, Advice, choose, is_beaten, no_end, too_little
from isotherm.core.replay.trial import Figures, Trial, watched
from support.builders import HOUR, KIB, MINUTE
from support.nights import ON
from workloads.appends import monthly
from workloads.updates import buckets
from workloads.writing import HOURS, START, Writer, wrote


def figures(read=0.0, rewritten=0.0, **fields):
    """Figures of which only the price matters."""
    return Figures(
        **{
            "files_mean": read,
            "files_p95": 1,
            "write_amplification": 1 + rewritten,
            "jobs": 1,
            "in_vain": 0,
            "delay_ms": None,
            "has_cold_debt": True,
            "read_bytes": read,
            "rewritten_bytes_a_day": rewritten,
            **fields,
        }
    )


def trials_of(*prices):
    """What was tried, by what readers and writers pay; the first is what is there."""
    return [
        Trial(
            Candidate(f"number {number}", Policy(), {} if number == 0 else {"compact.min_files": number}),
            figures(*price),
        )
        for number, price in enumerate(prices)
    ]


costs = st.integers(0, 1000)
many = st.lists(st.tuples(costs, costs), min_size=1, max_size=12)
reads = st.sampled_from([0, 0.1, 1.0, 24.0])


@given(many, reads)
def test_what_is_chosen_is_beaten_by_nothing_that_was_tried(prices, reads_a_day):
    trials = trials_of(*prices)
    choice = choose(trials, ON, reads_a_day)
    assume(choice.advice is Advice.CHANGE)

    assert not any(is_beaten(choice.chosen, other) for other in trials)


@given(many, reads)
@example([(1, 0), (0, 0)], 0)
def test_a_change_saves_a_tenth_and_what_is_kept_could_not(prices, reads_a_day):
    trials = trials_of(*prices)
    choice = choose(trials, ON, reads_a_day)
    before, after = (one.figures.price(reads_a_day) for one in (trials[0], choice.chosen))
    cheapest = min(one.figures.price(reads_a_day) for one in trials)

    if choice.advice is Advice.CHANGE:
        assert after <= (1 - WORTH) * before
        assert after <= (1 + AS_GOOD) * cheapest
    else:
        assert choice.advice is Advice.KEEP
        assert choice.chosen is trials[0]
        assert (1 + AS_GOOD) * cheapest >= (1 - WORTH) * before


@given(many, reads, st.randoms(use_true_random=False))
def test_the_order_of_the_trials_does_not_matter(prices, reads_a_day, random):
    trials = trials_of(*prices)
    others = trials[1:]
    random.shuffle(others)
    first, second = (choose([trials[0], *rest], ON, reads_a_day) for rest in (trials[1:], others))

    assert first.advice is second.advice
    assert first.chosen.figures.price(reads_a_day) == second.chosen.figures.price(reads_a_day)


def test_of_what_is_as_good_the_simplest_is_chosen():
    one, two = {"cold.after": 0}, {"cold.after": 0, "compact.rest": HOUR}
    now, simple, cheapest = (
        Trial(Candidate("", Policy(), changes), figures(*price))
        for changes, price in (({}, (100, 0)), (one, (10.1, 40)), (two, (10, 39.9)))
    )
    beaten = replace(simple, figures=figures(10.2, 39.8))

    assert choose([now, cheapest, beaten], ON, 1).chosen is beaten
    # What is worse for both is not as good, however simple it is.
    assert choose([now, cheapest, simple], ON, 1).chosen is cheapest


@pytest.mark.parametrize(
    ("now", "best", "said"),
    [
        ((118, 1), (41, 9), "Readers meet 41.0 files in a partition where they meet 118.0 now"),
        ((118, 1), (41, 9), "each byte is written 10.00 times where now 2.00"),
        ((118, 1), (41, 9), "50 B a day instead of 119 B, 58% less; it pays from 0.1 reads a day on."),
        ((10, 90), (20, 30), "it pays up to 6 reads a day."),
        ((10, 90), (5, 30), "less, however often the table is read."),
    ],
)
def test_why_has_its_numbers(now, best, said):
    choice = choose(trials_of(now, best), ON, 1)

    assert choice.advice is Advice.CHANGE
    assert said in choice.why


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ([(10, 0)], "Keep what you have for now: no other policy was tried."),
        ([(10, 0), (10, 0), (11, 0)], "none of 2 other policies costs less"),
        (
            [(100, 0), (91, 0)],
            "none of 1 other policies costs a tenth less. The cheapest, number 1, costs 9.0% less",
        ),
    ],
)
def test_what_is_kept_says_how_near_it_was(prices, said):
    assert said in choose(trials_of(*prices), ON, 1).why


def test_of_one_policy_alone_nothing_is_concluded():
    (alone,) = trials_of((10, 0))
    hot = replace(alone, figures=replace(alone.figures, jobs=0, has_cold_debt=False))

    assert choose([hot], ON, 1).advice is Advice.KEEP
    assert choose([hot, hot], ON, 1).advice is Advice.NEVER_COLD


def test_where_nobody_compacts_anything_it_says_where_to_look():
    idle = [replace(one, figures=replace(one.figures, jobs=0)) for one in trials_of((10, 0), (10, 0))]

    assert "`isotherm explain` says why" in choose(idle, ON, 1).why


@pytest.mark.parametrize(
    ("commits", "days", "said"),
    [
        (0, 3, "0 commits of writers in 3d"),
        (1, 3, "1 commit of writers in 3d"),
        (19, 3, "It takes 20 of them and 1d 12h"),
        (500, 1.4, "500 commits of writers in 1d 9h"),
    ],
)
def test_too_little_history_says_what_is_needed(commits, days, said):
    writer = Writer(HOURS)
    for number in range(commits):
        writer.commit(START + number * MINUTE, {number: wrote(1, KIB)})
    choice = too_little(writer.history(days))

    assert (choice.advice, choice.chosen) == (Advice.TOO_LITTLE, None)
    assert said in choice.why


def test_our_own_commits_are_no_history():
    enough = Writer(HOURS)
    for number in range(20):
        enough.commit(START + number * MINUTE, {number: wrote(1, KIB)})
    history = enough.history(2)
    ours = tuple(
        replace(one, change=replace(one.change, origin=Origin.MAINTENANCE)) for one in history.recorded
    )

    assert too_little(history) is None
    assert too_little(replace(history, recorded=ours)) is not None


def test_a_month_that_is_not_over_is_no_history_of_months():
    over, going_on = monthly(40), monthly(20)

    assert no_end(watched(over, Policy())) is None
    assert "the first ends 2026-02-01" in no_end(watched(going_on, Policy())).why
    # Buckets have no end to wait for.
    assert no_end(watched(buckets(0.02), Policy())) is None
