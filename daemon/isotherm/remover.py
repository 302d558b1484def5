"""Deletes files: gathers the evidence about marked ones, has each judged, and deletes those that may go.

It works beside the loop, in one thread for all tables: each of its steps is a request to a store. What it may do was
decided before it began (`deletion.obstacle`) and is decided again by `deletion.judge` for every file; the loop can stop
it between two files. A file that cannot be deleted waits alone and holds up no other.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event
from typing import Generic, TypeVar

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from isotherm.deletion import Evidence, Finding, Mark, judge
from isotherm.manifest_reading import UnreadableError
from isotherm.ports import Sweep, Swept
from isotherm.reachability import IsStopped, Stopped, last_sequence_number, never, reached

DELETES_AT_ONCE = 8
"""Requests to delete that are under way together: a store takes some 30 ms for each."""


def sweep(table: Table, wanted: Sweep, is_stopped: IsStopped) -> Swept:
    """Judge marked files by what the table is now, and delete those that may go."""
    marks = {mark.path: mark for mark in wanted.marks}
    try:
        evidence = gathered(table, wanted.marks, is_stopped)
    except Stopped:
        return Swept(wanted.uuid)
    except (OSError, UnreadableError) as err:
        why = f"whether anything needs it cannot be read: {err}"
        return Swept(wanted.uuid, postponed=dict.fromkeys(marks, why))
    verdicts = {
        path: judge(mark, wanted.expired.get(mark.job_id, ()), evidence, wanted.neighbours)
        for path, mark in marks.items()
    }
    kept = {path: verdict for path, verdict in verdicts.items() if verdict.finding is Finding.KEEP}
    postponed = {path: verdict.why for path, verdict in verdicts.items() if verdict.finding is Finding.WAIT}
    gone, failed = deleted(
        table.io, [path for path, verdict in verdicts.items() if verdict.finding is Finding.GO], is_stopped
    )
    return Swept(wanted.uuid, tuple(gone), kept, postponed | failed)


def gathered(table: Table, marks: Sequence[Mark], is_stopped: IsStopped) -> Evidence:
    """What the table shows about marked files.

    Raises:
        OSError, UnreadableError: a manifest list or manifest cannot be read.
        Stopped: so it was wanted.
    """
    metadata = table.metadata
    by_sight: dict[int | None, list[str]] = {}
    for mark in marks:
        by_sight.setdefault(mark.seen_through, []).append(mark.path)
    # What was seen the least far is good for all of them, and read once.
    seen_through = (
        None if None in by_sight else min((one for one in by_sight if one is not None), default=None)
    )
    paths = [path for part in by_sight.values() for path in part]
    return Evidence(
        location=metadata.location,
        gc_enabled=metadata.properties.get("gc.enabled", "true").strip().lower() != "false",
        last_sequence_number=last_sequence_number(metadata),
        snapshot_ids=frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots),
        reached=reached(metadata, table.io, paths, seen_through, is_stopped),
    )


def deleted(
    io: FileIO, paths: Sequence[str], is_stopped: IsStopped = never
) -> tuple[list[str], dict[str, str]]:
    """Delete files; gives those that are gone, and why others are not. What was not there is gone."""
    gone: list[str] = []
    failed: dict[str, str] = {}

    def delete(path: str) -> str | None:
        if is_stopped():
            raise Stopped
        try:
            io.delete(path)
        except FileNotFoundError:
            return None
        except Exception as err:  # noqa: BLE001 (every store has errors of its own)
            return f"{type(err).__name__}: {err}"
        return None

    with ThreadPoolExecutor(DELETES_AT_ONCE, "isotherm-delete") as pool:
        for path, future in [(path, pool.submit(delete, path)) for path in paths]:
            try:
                why = future.result()
            except Stopped:
                continue
            if why is None:
                gone.append(path)
            else:
                failed[path] = why
    return gone, failed


Result = TypeVar("Result")


@dataclass
class Beside(Generic[Result]):
    """Work beside the loop: one thing after another in one thread, each under a name, and stoppable."""

    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "isotherm-beside"))
    _running: dict[str, tuple[Future[Result], Event]] = field(default_factory=dict)

    def start(self, name: str, work: Callable[[IsStopped], Result]) -> None:
        """Begin some work, when what was begun before is over."""
        stop = Event()
        self._running[name] = (self._pool.submit(work, stop.is_set), stop)

    def ended(self) -> Iterator[tuple[str, Result | BaseException]]:
        """What ended since the last call, with its result or its error; each is given once."""
        for name, (future, _) in list(self._running.items()):
            if future.done():
                del self._running[name]
                yield name, future.exception() or future.result()

    def stop(self, name: str) -> None:
        """Have some work end soon; it is still given by `ended`."""
        if name in self._running:
            self._running[name][1].set()

    def forget(self, name: str) -> None:
        """Have some work end soon, and never give it."""
        self.stop(name)
        self._running.pop(name, None)

    def wait(self, timeout_s: float) -> None:
        """Return when something has ended, or the time is over."""
        if self._running:
            wait([future for future, _ in self._running.values()], timeout_s, FIRST_COMPLETED)

    def close(self) -> None:
        """End everything; the step that is being done may last a little longer."""
        for _, stop in self._running.values():
            stop.set()
        self._running.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
