"""Plays mutants: some finders with the code as it is, then for each mutant the finder that must find it.

A process of its own, in which pytest collects all finders once. For each play it forks: so nothing of one reaches
another, and everything is imported once. Two plays are under way at a time. A session of Spark takes longer than all
that is asked of it here, so the plays with Spark are forked, one after another, from a process that has started one.

    PYTHONPATH=daemon:ingest:tests python -m mutants.play RESULTS [words of the mutants that are wanted]
"""

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, settings
from pyspark.sql import SparkSession

from mutants.every import MUTANTS
from mutants.mutant import REPOSITORY, Mutant, functions_now
from simulation.story import told
from support.memory_disk import use_memory

AT_ONCE = 2
LONGEST_S = 100
"""A test that takes longer is no answer."""
SPARK_STARTS_S = 600
"""The one that starts Spark may take longer: other sessions start beside it."""
LIVED, FOUND = 0, 1
"""How a play ends; anything else is a mistake of the mutant, or of this module."""
SEED = "seed "


class Player:
    """Plays instead of pytest's own loop, with what pytest has collected."""

    def __init__(self, mutants: Sequence[Mutant], results: Path) -> None:
        self.mutants, self.results = mutants, results
        self.ends: list[dict[str, object]] = []
        self.under_way: dict[int, tuple[str, Path]] = {}

    def pytest_configure(self) -> None:
        # That an example finds the mutant is enough. The shortest one took hypothesis up to twenty seconds.
        found = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
        settings.register_profile("mutants", phases=found)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # `make test` runs every one of them; here the first case of one of each file shows that they can be played, and
        # of those with Spark a single one.
        of_spark = {name_of(item) for item in session.items if "spark" in getattr(item, "fixturenames", ())}
        with_spark = [one for one in self.mutants if one.finder.partition("[")[0] in of_spark]
        others = [one for one in self.mutants if one not in with_spark]
        finders = {finder.partition("::")[0]: finder for finder in (one.finder for one in others)}.values()
        loaded = self.results.with_suffix(".loaded")
        self.begin("", lambda: as_it_is(session, finders, loaded))
        self.wait()
        for name in loaded.read_text().split():
            # Whatever a finder loads only when it runs: once, here, instead of once in each play.
            with suppress(Exception):
                import_module(name)
        functions_now()
        gc.freeze()  # what all plays share is copied by none of them for the collector's sake
        of_sessions = self.results.with_suffix(".spark.json")
        if with_spark:
            self.begin("", lambda: self.beside_a_session(session, with_spark, of_sessions))
        self.play(others, AT_ONCE, lambda mutant: with_mutant(session, mutant))
        if with_spark:
            self.ends += json.loads(of_sessions.read_text())
        self.results.write_text(json.dumps(self.ends))
        return True

    def beside_a_session(self, session: pytest.Session, mutants: Sequence[Mutant], results: Path) -> int:
        """Start a session of Spark by one finder with the code as it is, and play mutants beside it.

        A fork asks the session over the connection that it has from here. Nobody else does at that time.
        """
        self.results, self.ends, self.under_way = results, [], {}
        for item in session.items:
            if name_of(item) == mutants[0].finder.partition("[")[0]:
                item.add_marker(pytest.mark.timeout(SPARK_STARTS_S), append=False)
        end = as_it_is(session, [mutants[0].finder], results.with_suffix(".loaded"))
        functions_now.cache_clear()
        functions_now()
        gc.freeze()
        self.play(mutants, 1, lambda mutant: in_an_empty_lake(session, mutant))
        results.write_text(json.dumps(self.ends))
        return end

    def play(self, mutants: Iterable[Mutant], at_once: int, end: Callable[[Mutant], int]) -> None:
        """Play some mutants, so many at a time, and wait for whatever is under way."""
        for mutant in mutants:
            if len(self.under_way) >= at_once:
                self.wait()
            self.begin(mutant.breaks, lambda mutant=mutant: end(mutant))
        while self.under_way:
            self.wait()

    def begin(self, name: str, play: Callable[[], int]) -> None:
        """Begin one play, in a process of its own; it ends with what the play gives."""
        log = self.results.with_suffix(f".{len(self.ends) + len(self.under_way)}.log")
        child = os.fork()
        if not child:
            end = 2
            try:
                with log.open("wb", buffering=0) as said:
                    os.dup2(said.fileno(), 1)
                    os.dup2(said.fileno(), 2)
                end = play()
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(end)
        self.under_way[child] = name, log

    def wait(self) -> None:
        """Until one play is over."""
        child, status, used = os.wait4(-1, 0)
        name, log = self.under_way.pop(child)
        end = os.waitstatus_to_exitcode(status)
        said = log.read_text(errors="replace")[-4000:]
        cpu_s = round(used.ru_utime + used.ru_stime, 2)
        self.ends.append({"mutant": name, "end": end, "said": said, "cpu_s": cpu_s})


def as_it_is(session: pytest.Session, finders: Iterable[str], loaded: Path) -> int:
    """Some finders, with the code as it is; writes which modules they loaded."""
    before = set(sys.modules)
    ends = {finder: found(session, finder, cases=1) for finder in finders}
    loaded.write_text("\n".join(sorted(sys.modules.keys() - before)))
    sys.stdout.write(f"{[finder for finder, end in ends.items() if end]}\n")
    return FOUND if any(ends.values()) else LIVED


def with_mutant(session: pytest.Session, mutant: Mutant) -> int:
    """The finder of a mutant, with the mutant in its place."""
    mutant.put_in_place()
    return FOUND if found(session, mutant.finder) else LIVED


def in_an_empty_lake(session: pytest.Session, mutant: Mutant) -> int:
    """The same with Spark: without the tables of the fork before, which counted names from the same number."""
    # The one that there is. Active it is only in that thread of the JVM which answered then.
    spark = SparkSession.builder.getOrCreate()
    for namespace in spark.sql("SHOW NAMESPACES IN lake").collect():
        for table in spark.sql(f"SHOW TABLES IN lake.{namespace[0]}").collect():
            if not table["isTemporary"]:
                spark.sql(f"DROP TABLE lake.{table['namespace']}.{table['tableName']}")
    return with_mutant(session, mutant)


def found(session: pytest.Session, finder: str, cases: int | None = None) -> bool:
    """Whether a finder finds anything; in so many of its cases."""
    if finder.startswith(SEED):
        story = told(int(finder.removeprefix(SEED)))
        sys.stdout.write(f"{story.broken}\n")
        return bool(story.broken)
    before = session.testsfailed
    named = (f"tests/{finder}", f"tests/{finder}[")
    items = (one for one in session.items if one.nodeid == named[0] or one.nodeid.startswith(named[1]))
    for item in islice(items, cases):
        # As if only pytest's session came next, to which Spark's belongs: so that one stays.
        stays = session if "spark" in getattr(item, "fixturenames", ()) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=stays)
        if session.testsfailed > before:
            return True
    return False


def name_of(item: pytest.Item) -> str:
    """A test, as mutants name it, without its case."""
    return item.nodeid.removeprefix("tests/").partition("[")[0]


class Said:
    """Has what a test says on failing in the play's log."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write it down."""
        if report.failed:
            sys.stdout.write(f"{report.longreprtext}\n")


def main(results: str, *words: str) -> int:
    """Play."""
    wanted = [
        one for one in MUTANTS if not words or any(word in f"{one.file} {one.breaks}" for word in words)
    ]
    tests = sorted({f"tests/{one.finder}" for one in wanted if not one.finder.startswith(SEED)})
    os.chdir(REPOSITORY)
    options = ["-q", "-s", "--tb=native", "-p", "no:cacheprovider", "-p", "no:terminalreporter"]
    plugins = [Player(wanted, Path(results)), Said()]
    use_memory()
    # Of its own, because nobody else removes what forked plays leave.
    with TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        return pytest.main([*options, "-o", f"timeout={LONGEST_S}", *tests], plugins=plugins)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
