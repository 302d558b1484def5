"""A search for a policy on a table's history: what it suggests, and how it measures what it tried."""

import math
from collections import Counter

import pytest

from isotherm.core.policy.policy import Cold, Compact, Policy
from isotherm.core.replay.candidates import MOST, Candidate
from isotherm.core.replay.policy_choice import Advice, choose, search
from isotherm.core.replay.replay import replay
from isotherm.core.replay.trial import POINTS, tried, watched
from support.builders import DAY, HOUR, MIB, MINUTE
from support.nights import ASSUMED, NIGHTLY
from workloads.appends import hourly, well_sized_batch
from workloads.writing import HOURS, START, Writer, every, old, wrote


def test_where_nothing_was_compacted_the_rest_is_tried_once_something_is():
    never = Policy(compact=Compact(min_files=2000))
    trials, choice = searched(NIGHTLY, never)
    both = {"compact.min_files": "learned", "cold.silent_for": 6 * HOUR}

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
    assert choice.chosen.candidate.changes["compact.min_files"] == "learned"
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
