"""The whole daemon in a simulated world: whatever befalls it, no promise is broken, and at the end nothing is left to do.

How it is built is in docs/designs/simulation.md. A failure prints its seed and the last fifty steps;
`python -m simulation SEED` tells that story again.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from random import SystemRandom

import pytest

from isotherm.core.units import parse_span_ms
from isotherm.runtime.clock import monotonic_s
from simulation.story import PROFILES, STEPS, Told, imported, told

SEEDS = range(1, 151)
FOUND = (658155783, 658156073, 659560950, 910002254)
"""Stories that once ended with work left: delete files that name no file any more were begun again and again, and the
end of a compaction stayed open, because nobody committed any more. In the last one a clock was behind by two hours when
a file came: once it was right again, the file counted as old."""
IN_PAUSES = (1268, 1578, 3356)
"""Stories in which an hour is compacted in one of its writers' pauses, and no other commit has passed it by."""
AT_A_TIME = 100
"""Stories between two looks at the clock."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """As many processes as there are cores, in which the order of sets of texts is one: it is part of a story."""
    with (
        pytest.MonkeyPatch.context() as patch,
        ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=imported) as pool,
    ):
        patch.setenv("PYTHONHASHSEED", "0")
        yield pool


def all_told(pool: ProcessPoolExecutor, seeds: Iterable[int]) -> Iterable[Told]:
    """The stories of some seeds."""
    return pool.map(told, seeds, chunksize=10)


@pytest.mark.timeout(900)
def test_no_promise_is_broken_and_nothing_is_left_to_do(pool):
    stories = list(all_told(pool, (*FOUND, *IN_PAUSES, *SEEDS)))
    broken = [one for one in stories if one.broken]
    counts = sum((Counter(one.counts) for one in stories), Counter())

    assert not broken, "\n\n".join(telling(one) for one in broken[:3])
    assert {one.profile for one in stories} == set(PROFILES)
    assert min(counts[what] for what in ("replaced", "expired", "deleted")) > len(stories), (
        "it is about something"
    )
    assert min(counts[what] for what in ("beside", "merged", "converted", "trimmed", "orphans")) > 0


def test_a_seed_says_everything(pool):
    first, second = all_told(pool, [7, 7])

    assert first == second


def told_for(pool: ProcessPoolExecutor, span_s: float, first: int) -> Iterable[Told]:
    """Stories from a seed on, until the time is over."""
    until_s = monotonic_s() + span_s
    for start in count(first, AT_A_TIME):
        yield from all_told(pool, range(start, start + AT_A_TIME))
        if monotonic_s() >= until_s:
            return


@pytest.mark.soak
def test_soak_of_the_simulation(request, pool, seeds, capsys):
    """The seeds that `--seeds` names, or new ones for an hour (`--for`). A broken story is told, and the next begins."""
    first = SystemRandom().randrange(len(SEEDS) + 1, 10**9)
    named = request.config.getoption("--seeds")
    span_s = parse_span_ms(request.config.getoption("soak_for") or "60m") / 1000
    stories = all_told(pool, seeds(named)) if named else told_for(pool, span_s, first)
    found = []
    for number, story in enumerate(stories, 1):
        if story.broken:
            found.append(story.seed)
        with capsys.disabled():
            if story.broken:
                sys.stderr.write(telling(story) + "\n")
            if number % 1000 == 0 or number == 1:
                sys.stderr.write(f"seed {story.seed}, {number} stories of {STEPS} steps, broken: {found}\n")
    assert not found


def telling(story: Told) -> str:
    """A broken story for people."""
    steps = "\n".join(story.steps)
    return f"seed {story.seed} ({story.profile}): {story.broken}\n{steps}"
