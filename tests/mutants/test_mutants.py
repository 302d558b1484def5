"""What must be noticed is noticed: each mutant of the list is found by the test that it names.

A change of the code at a mutant's place fails here: look at the mutant again then, and find it again.

`make test` plays a sixteenth of them, and other ones with each change of the code or the tests: they try the tests,
which change seldom, and all of them take ten minutes of a core. `make soak ARGS=tests/mutants` plays all.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from mutants.every import MUTANTS
from mutants.mutant import REPOSITORY, Mutant
from mutants.play import FOUND, LIVED

PATHS = [str(REPOSITORY / part) for part in ("daemon", "ingest", "tests")]
NAMES = [mutant.breaks for mutant in MUTANTS]
PARTS = 16


@cache
def part_now() -> int:
    """Which part is played: by the sources, so that each process, and whoever plays it again, plays the same."""
    number = 0
    for folder in PATHS:
        for file in sorted(Path(folder).rglob("*.py")):
            number = crc32(file.read_bytes(), number)
    return number % PARTS


PART = [name for name in NAMES if crc32(name.encode()) % PARTS == part_now()]


def test_each_mutant_has_a_name_of_its_own():
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_what_a_mutant_changes_is_there_once(mutant: Mutant):
    assert mutant.source.read_text().count(mutant.text) == 1
    assert mutant.text != mutant.change


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_the_finder_of_a_mutant_is_there(mutant: Mutant):
    """One that is gone would end the play of all others; and only a part of them is played each time."""
    if mutant.finder.startswith("seed "):
        assert mutant.finder.removeprefix("seed ").isdecimal()
        return
    file, _, name = mutant.finder.partition("[")[0].partition("::")
    assert f"def {name.rpartition('::')[2]}(" in (REPOSITORY / "tests" / file).read_text()


def ends_of(names: Iterable[str], results: Path) -> dict[str, list[dict[str, object]]]:
    """How each play ended, by name; those without one are of the code as it is."""
    # The order of sets of texts is part of a story of the simulation.
    subprocess.run(
        [sys.executable, "-m", "mutants.play", str(results), *names],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "PYTHONHASHSEED": "0"},
        check=True,
        timeout=1500,
    )
    found: dict[str, list[dict[str, object]]] = {}
    for end in json.loads(results.read_text()):
        found.setdefault(end["mutant"], []).append(end)
    return found


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    return ends_of(PART, tmp_path_factory.mktemp("mutants") / "results.json")


@pytest.mark.timeout(1600)
def test_the_finders_find_nothing_in_the_code_as_it_is(ends):
    assert all(end["end"] == LIVED for end in ends[""]), "\n\n".join(end["said"] for end in ends[""])


@pytest.mark.parametrize("name", PART)
@pytest.mark.timeout(1600)
def test_a_mutant_is_found(ends, name):
    (end,) = ends[name]

    assert end["end"] == FOUND, end["said"]


@pytest.mark.soak
def test_soak_of_all_mutants(tmp_path):
    ends = ends_of((), tmp_path / "results.json")

    assert all(end["end"] == LIVED for end in ends.pop(""))
    assert ends.keys() == set(NAMES)
    assert [name for name, (end,) in ends.items() if end["end"] != FOUND] == []
