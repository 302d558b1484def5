"""What must be noticed is noticed: each mutant of the list is found by the test that it names.

A change of the code at a mutant's place fails here: look at the mutant again then, and find it again.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.every import MUTANTS
from mutants.mutant import REPOSITORY, Mutant
from mutants.play import FOUND, LIVED

PATHS = [str(REPOSITORY / part) for part in ("daemon", "ingest", "tests")]
NAMES = [mutant.breaks for mutant in MUTANTS]


def test_each_mutant_has_a_name_of_its_own():
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_what_a_mutant_changes_is_there_once(mutant: Mutant):
    assert mutant.source.read_text().count(mutant.text) == 1
    assert mutant.text != mutant.change


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """How each play ended."""
    results: Path = tmp_path_factory.mktemp("mutants") / "results.json"
    # The order of sets of texts is part of a story of the simulation.
    subprocess.run(
        [sys.executable, "-m", "mutants.play", str(results)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "PYTHONHASHSEED": "0"},
        check=True,
        timeout=1500,
    )
    return json.loads(results.read_text())


@pytest.mark.timeout(1600)
def test_the_finders_find_nothing_in_the_code_as_it_is(ends):
    as_it_is = [one for one in ends if not one["mutant"]]

    assert [one["end"] for one in as_it_is] == [LIVED, LIVED], [one["said"] for one in as_it_is]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.timeout(1600)
def test_a_mutant_is_found(ends, name):
    end = next(one for one in ends if one["mutant"] == name)

    assert end["end"] == FOUND, end["said"]
