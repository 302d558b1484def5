"""The laws of what is tried on a table's history, how it is measured, and which policy is chosen."""

import math
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from isotherm.contract.summary import Origin
from isotherm.core.policy.cold_after import LEARNED
from isotherm.core.policy.diff import policy_changes
from isotherm.core.policy.policy import Cold, Compact, Policy
from isotherm.core.replay.candidates import MOST, SINGLE, Candidate, beside, changed, near, together
from isotherm.core.replay.choice import AS_GOOD, WORTH, Advice, choose, is_beaten, no_end, search, too_little
from isotherm.core.replay.replay import Assumed, replay
from isotherm.core.replay.trial import POINTS, Figures, Trial, tried, watched
from support.builders import DAY, HOUR, KIB, MIB, MINUTE
from workloads.appends import hourly, monthly, nightly_batch, well_sized_batch
from workloads.updates import buckets, keyed_upserts, mirror_uniform
from workloads.writing import HOURS, START, Writer, every, old, wrote

ASSUMED = Assumed(plan_every_ms=9 * MINUTE)
NIGHTLY = nightly_batch(10)
ON = watched(NIGHTLY, Policy())


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


WHOLE = st.integers(1, 2000)
SPANS = st.integers(0, 20 * DAY)
AFTERS = SPANS.map(lambda span_ms: timedelta(milliseconds=span_ms))


@st.composite
def policies(draw):
    """Any policy, also at its bounds."""
    cold = Cold().model_copy(
        update={
            "after": draw(st.one_of(st.just(LEARNED), st.just(0.0), st.floats(0, 100), AFTERS)),
            "quiet_for": draw(SPANS),
            "quiet_commits": draw(st.integers(0, 50)),
            "silent_for": draw(SPANS),
            "late_write_risk": draw(st.floats(0.0001, 1)),
        }
    )
    compact = Compact().model_copy(
        update={
            "min_files": draw(st.integers(2, 100)),
            "rest": draw(SPANS),
            "max_position_deletes": draw(WHOLE),
            "max_deletion_vectors": draw(WHOLE),
        }
    )
    return Policy().model_copy(update={"cold": cold, "compact": compact})


@given(policies(), st.sampled_from([NIGHTLY, mirror_uniform(0.1), buckets(0.02)]))
def test_every_candidate_is_a_policy_that_a_file_can_say(policy, history):
    found = near(policy, history)

    assert len(found) <= SINGLE
    assert len({one.name for one in found}) == len(found)
    for one in (*found, *together(policy, found)):
        changes = policy_changes(policy, one.policy)
        said = Policy.model_validate(_as_a_file_says(one, changes))

        assert {change.field for change in changes} == one.changes.keys()
        assert not policy_changes(one.policy, _with(policy, said, changes))


def _as_a_file_says(candidate, changes):
    sections = {}
    for change in changes:
        section, name = change.field.split(".")
        value = candidate.changes[change.field]
        said = value if isinstance(value, float) else change.after
        said = value if isinstance(value, int) and not change.after[-1].isalpha() else said
        sections.setdefault(section, {})[name] = said
    return sections


def _with(policy, said, changes):
    for change in changes:
        section, name = change.field.split(".")
        held = getattr(policy, section).model_copy(update={name: getattr(getattr(said, section), name)})
        policy = policy.model_copy(update={section: held})
    return policy


@pytest.mark.parametrize(
    ("history", "tried_", "not_tried"),
    [
        (NIGHTLY, "cold.after", "compact.max_position_deletes"),
        (mirror_uniform(0.1), "compact.max_position_deletes", "compact.max_deletion_vectors"),
        (buckets(0.02), "cold.quiet_for", "cold.after"),
        (keyed_upserts(0.1), "compact.max_equality_deletes", "compact.max_position_deletes"),
    ],
)
def test_only_what_the_history_can_show_is_tried(history, tried_, not_tried):
    fields = {field for one in near(Policy(), history) for field in one.changes}

    assert tried_ in fields
    assert not_tried not in fields


def test_a_policy_at_its_bounds_is_tried_in_the_other_direction_alone():
    least = Policy(compact=Compact(min_files=2), cold=Cold(quiet_for=0, late_write_risk=1))
    names = {one.name for one in near(least, NIGHTLY)}

    assert "min_files 4" in names
    assert not names & {"min_files 1", "min_files 0", "quiet_for 0s", "late_write_risk 1"}


def test_what_is_far_from_the_default_is_tried_with_it_too():
    far = Policy(compact=Compact(min_files=2000), cold=Cold(after=40))
    names = [one.name for one in near(far, NIGHTLY)]

    assert [name for name in names if "min_files" in name] == [
        "min_files 20",
        "min_files 1000",
        "min_files 500",
    ]
    # Whoever interrupts the search has seen them.
    assert names[:2] == ["after learned", "min_files 20"]


def test_what_pays_is_tried_together_the_best_of_each_field():
    after, files, fewer, rest = (
        changed(Policy(), one)
        for one in (
            {"cold.after": 0},
            {"compact.min_files": 5},
            {"compact.min_files": 10},
            {"compact.rest": HOUR},
        )
    )
    names = [one.name for one in together(Policy(), [after, files, fewer, rest])]

    assert names == ["after 0, min_files 5", "after 0, min_files 5, rest 1h"]
    assert together(Policy(), [files, fewer]) == ()
    assert together(Policy(), []) == ()


def test_what_had_no_effect_by_itself_is_tried_on_the_best():
    best, other, same, none = (
        changed(Policy(), one)
        for one in (
            {"compact.min_files": 5},
            {"cold.after": 0},
            {"compact.min_files": 10},
            {"compact.rest": HOUR},
        )
    )
    names = [one.name for one in beside(Policy(), best, [other, same, none])]

    assert names == ["min_files 5, after 0", "min_files 5, rest 1h"]
    assert beside(Policy(), Candidate("now", Policy(), {}), [other]) == ()


def test_where_nothing_was_compacted_the_rest_is_tried_once_something_is():
    never = Policy(compact=Compact(min_files=2000))
    trials, choice = searched(NIGHTLY, never)
    both = {"compact.min_files": 20, "cold.silent_for": 6 * HOUR}

    assert len(trials) <= MOST
    assert choice.chosen.candidate.changes == both


def test_figures_are_those_that_a_plain_recount_finds():
    history, met, held, target = hourly(2), Counter(), [], 128 * MIB
    policy = Policy(cold=Cold(after=2))
    on = watched(history, policy)

    def look(_, partitions):
        held.append(0)
        for one in partitions.values():
            sizes = [(stats.files, stats.bytes) for stats in one.data.values()]
            files, size = (sum(column) for column in zip(*sizes, strict=True))
            met[files] += 1
            held[-1] += 4 * MIB * max(files - max(1, round(size / target)), 0)

    replayed = replay(history, policy, ASSUMED, samples=POINTS, show=look)
    got = tried(on, Candidate("", policy, {}), ASSUMED).figures
    ranked = sorted(met.elements())
    days = (history.ends_at_ms - history.starts_at_ms) / DAY
    paid = 2 * replayed.totals.rewritten_bytes + 64 * MIB * replayed.totals.jobs

    assert replayed.totals.jobs > 20
    assert got.files_mean == pytest.approx(sum(ranked) / len(ranked))
    assert got.files_p95 == ranked[math.ceil(0.95 * len(ranked)) - 1]
    assert got.read_bytes == pytest.approx(sum(held) / len(held))
    assert got.rewritten_bytes_a_day == pytest.approx(paid / days)
    assert got.price(3) == pytest.approx(3 * got.read_bytes + got.rewritten_bytes_a_day)
    # An hour is left at its end, and compacted two hours later.
    assert 2 * HOUR <= got.delay_ms <= 2 * HOUR + 20 * MINUTE


def test_partitions_that_nobody_writes_to_count_where_they_owe_something():
    writer = Writer(HOURS, before={1: old(1, 200 * MIB), 2: old(30, MIB)})
    writer.commit(START, {3: wrote(1, MIB)})
    history = writer.history(1)

    assert sorted(watched(history, Policy()).partitions) == sorted(
        {*history.recorded[0].change.partitions, sorted(history.partitions)[1]}
    )


def searched(history, policy=None, reads_a_day=1.0):
    on = watched(history, policy or Policy())
    trials = list(search(on, "now", policy or Policy(), ASSUMED, reads_a_day))
    return trials, choose(trials, on, reads_a_day)


NEVER = Policy(compact=Compact(min_files=100))
"""A batch of the night never has so many files."""


def test_a_limit_that_is_never_reached_is_lowered():
    trials, choice = searched(NIGHTLY, NEVER)

    assert choice.advice is Advice.CHANGE
    assert choice.chosen.candidate.changes["compact.min_files"] == 20
    assert len(trials) <= MOST
    # The same history gives the same choice.
    assert searched(NIGHTLY, NEVER)[1] == choice


def test_what_is_chosen_is_kept_or_bettered_when_it_is_asked_again():
    _, choice = searched(NIGHTLY, NEVER)
    price = choice.chosen.figures.price(1)
    trials, again = searched(NIGHTLY, choice.chosen.candidate.policy)

    assert trials[0].figures.price(1) == price
    assert again.chosen.figures.price(1) <= price


def test_well_sized_files_are_left_as_they_are():
    _, choice = searched(well_sized_batch(10))

    assert choice.advice is Advice.KEEP
    assert choice.chosen.figures.jobs == 0


def test_a_table_that_is_written_all_the_time_is_never_cold():
    writer = Writer((), is_ingest=False)
    for at_ms in every(4 * MINUTE, 2):
        writer.commit(at_ms, {None: wrote(1, MIB)})
    _, choice = searched(writer.history(2))

    assert choice.advice is Advice.NEVER_COLD
    assert "writers come back to one every 4m" in choice.why
    assert choice.why.endswith("or, because they only append, say `compact.minor_after`.")


def test_who_has_asked_for_old_files_already_is_told_to_wait():
    writer = Writer((), is_ingest=False)
    for at_ms in every(4 * MINUTE, 2):
        writer.commit(at_ms, {None: wrote(1, MIB)})
    _, choice = searched(writer.history(2), Policy(compact=Compact(minor_after="7d")))

    assert choice.advice is Advice.NEVER_COLD
    assert choice.why.endswith("`compact.minor_after` waits until they have only appended for 7d.")


def test_old_files_beside_writers_that_do_more_than_append_are_not_proposed():
    writer = Writer((), is_ingest=False)
    for at_ms in every(4 * MINUTE, 2):
        writer.commit(at_ms, {None: wrote(1, MIB, delete_files=1, delete_rows=1)})
    _, choice = searched(writer.history(2))

    assert choice.advice is Advice.NEVER_COLD
    assert choice.why.endswith("or leave partitions behind.")


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


def test_a_name_says_what_differs():
    two = changed(Policy(), {"cold.after": 0, "compact.rest": 6 * HOUR})

    assert two.name == "after 0, rest 6h"
    assert changed(Policy(), {"cold.after": LEARNED}) is None
