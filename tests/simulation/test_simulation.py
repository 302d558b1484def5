"""The whole daemon in a simulated world: whatever befalls it, no promise is broken, and at the end nothing is left to do.

How it is built is in docs/designs/simulation.md. A failure prints its seed and the last fifty steps;
`python -m simulation SEED` tells that story again.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from simulation.story import PROFILES, STEPS, Told, told

SEEDS = range(1, 501)


@pytest.fixture(autouse=True)
def one_order_of_sets(monkeypatch):
    """In the processes that tell the stories: the order of sets of texts is part of a story."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")


def all_told(seeds: Iterable[int]) -> Iterable[Told]:
    """The stories, told by as many processes as there are cores."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield from pool.map(told, seeds, chunksize=10)


@pytest.mark.timeout(900)
def test_no_promise_is_broken_and_nothing_is_left_to_do():
    stories = list(all_told(SEEDS))
    broken = [one for one in stories if one.broken]
    counts = sum((Counter(one.counts) for one in stories), Counter())

    assert not broken, "\n\n".join(telling(one) for one in broken[:3])
    assert {one.profile for one in stories} == set(PROFILES)
    assert min(counts[what] for what in ("replaced", "expired", "deleted")) > len(stories), (
        "it is about something"
    )


def test_a_seed_says_everything():
    first, second = all_told([7, 7])

    assert first == second


@pytest.mark.soak
def test_soak_of_the_simulation(seeds, capsys):
    found = 0
    for number, story in enumerate(all_told(seeds("1001..25000")), 1):
        found += bool(story.broken)
        with capsys.disabled():
            if story.broken:
                sys.stderr.write(telling(story) + "\n")
            if number % 1000 == 0:
                sys.stderr.write(f"{number} stories of {STEPS} steps, {found} broken\n")
    assert not found


def telling(story: Told) -> str:
    """A broken story for people."""
    steps = "\n".join(story.steps)
    return f"seed {story.seed} ({story.profile}): {story.broken}\n{steps}"
