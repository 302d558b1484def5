"""Deletes files: gathers the evidence about marked ones, has each judged, and deletes those that may go.

Orphans it moves into the table's quarantine where the policy says so. What is needed again it puts back from there.

It works beside the loop, one table after another: each of its steps is a request to a store. What it may do was
decided before it began (`obstacles.obstacle`) and is decided again by `deletion.judge` for every file; the loop can stop
it between two files. A file that cannot be deleted waits alone and holds up no other.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from isotherm.clients.listing import written_at_ms
from isotherm.clients.manifests.avro import UnreadableError
from isotherm.clients.storage import REQUESTS_AT_ONCE
from isotherm.contract.paths import normalised, taken_for
from isotherm.core.deletion import (
    FOUND,
    NOT_OVER,
    Cause,
    Evidence,
    Finding,
    Mark,
    Seen,
    is_gc_enabled,
    judge,
    name_of,
)
from isotherm.core.quarantine import FOLDER
from isotherm.iceberg import metadata_folder
from isotherm.iceberg.by_name import ByName
from isotherm.iceberg.delete_or_move import Taking
from isotherm.iceberg.manifests.reachability import last_sequence_number, reached, reaching, youngest
from isotherm.iceberg.metadata_folder import further_than, versions
from isotherm.iceberg.needed_again import needed_again
from isotherm.iceberg.restoring import restored
from isotherm.iceberg.stopping import IsStopped, Stopped, never
from isotherm.iceberg.threads import THREADS, Threads
from isotherm.runtime.clock import monotonic_s
from isotherm.service.ports import Sweep, Swept

LOOKS = 4
"""Each looks at what came since the one before."""
LOOK_IS_GOOD_FOR_S = 30.0
"""So long after the last look at a table its files are deleted; then another look is due."""
STOPPED = "stopped"
NO_AGES: Mapping[str, int] = MappingProxyType({})


def sweep(
    table: Table,
    wanted: Sweep,
    is_stopped: IsStopped,
    clock_s: Callable[[], float] = monotonic_s,
    threads: Threads = THREADS,
    seen_through: int = 0,
) -> Swept:
    """Judge marked files by what the table is now, and delete those that may go.

    A file that is not dealt with, because it was stopped, is left out of the answer.

    Args:
        table: as it was just loaded.
        wanted: the files.
        is_stopped: asked between two files.
        clock_s: the monotonic clock.
        threads: how files are read and deleted together.
        seen_through: the highest sequence number that the table is known to have had.
    """
    marks = {mark.path: mark for mark in wanted.marks}
    try:
        evidence = gathered(table, wanted, is_stopped, threads, seen_through)
    except Stopped:
        return Swept(wanted.uuid)
    except (OSError, UnreadableError, NotImplementedError) as err:
        why = f"whether anything needs it cannot be read: {err}"
        return Swept(wanted.uuid, postponed=dict.fromkeys(marks, why))
    verdicts = {
        path: judge(mark, wanted.expired.get(mark.job_id, ()), evidence, wanted.neighbours)
        for path, mark in marks.items()
    }
    found = {
        finding: [path for path, one in verdicts.items() if one.finding is finding] for finding in Finding
    }
    taking = Taking(wanted, is_stopped)
    blocked = taking.blocked(found[Finding.GO])
    going = [path for path in found[Finding.GO] if path not in blocked]
    back = restored(table, wanted, verdicts, evidence, is_stopped, threads)
    gone, late = _delete(table, wanted, going, taking, is_stopped, clock_s, threads)
    not_over = [path for path in found[Finding.WAIT] if verdicts[path].reason == NOT_OVER]
    waits = {path: verdicts[path].why for path in found[Finding.WAIT] if path not in {*not_over}}
    kept = {path: verdicts[path] for path in found[Finding.KEEP]}
    postponed = waits | late | blocked | back.postponed
    return Swept(
        wanted.uuid,
        tuple(path for path in gone if path not in taking.moved and path not in taking.missing),
        kept | taking.kept,
        {path: why for path, why in postponed.items() if path not in taking.kept},
        taking.moved,
        tuple(back.restored),
        (*taking.missing, *back.missing),
        tuple(not_over),
    )


def _delete(
    table: Table,
    wanted: Sweep,
    going: Sequence[str],
    taking: Taking,
    is_stopped: IsStopped,
    clock_s: Callable[[], float],
    threads: Threads,
) -> tuple[list[str], dict[str, str]]:
    """Delete or move what may go, each file soon after a look at the table. Returns those that are gone from where they
    were, and why others must wait.

    A look is good for some files: then what came since is read, and it goes on. Each brings a FileIO of its own: the keys
    that a catalog gives out may be over when the proof is.
    """
    before_ms = {
        mark.path: wanted.before_ms[mark.cause] for mark in wanted.marks if mark.cause in wanted.before_ms
    }
    gone: list[str] = []
    postponed: dict[str, str] = {}
    seen = table
    while going and not is_stopped():
        try:
            seen, looked_s, late = _looked(seen, wanted, going, is_stopped, clock_s, threads)
        except Stopped:
            break
        except Exception as err:  # noqa: BLE001 (whatever keeps us from looking, we have not looked)
            postponed |= dict.fromkeys(going, f"the table could not be looked at once more: {err}")
            break
        postponed |= late
        if looked_s is None:
            postponed |= (
                dict.fromkeys(going, "the table cannot be looked at quickly enough to be sure") | late
            )
            break
        going = [path for path in going if path not in late]
        is_late = _after(looked_s + LOOK_IS_GOOD_FOR_S, is_stopped, clock_s)
        done, failed = deleted(seen.io, going, is_late, threads, before_ms, taking.take, taking.targets)
        gone += done
        postponed |= failed
        going = [path for path in going if path not in {*done, *failed}]
    return gone, postponed


def _after(until_s: float, is_stopped: IsStopped, clock_s: Callable[[], float]) -> IsStopped:
    """Whether it was stopped, or this time is over."""
    return lambda: is_stopped() or clock_s() > until_s


def _looked(
    table: Table,
    wanted: Sweep,
    going: Sequence[str],
    is_stopped: IsStopped,
    clock_s: Callable[[], float],
    threads: Threads,
) -> tuple[Table, float | None, dict[str, str]]:
    """Read what came since a look at the table, until that takes no time to speak of.

    Returns the table now, when the last look began, and those files that must wait, with why. The time is None where
    each look took too long.
    """
    late: dict[str, str] = {}
    for _ in range(LOOKS):
        looked_s = clock_s()
        table, more = _late(table, wanted, going, is_stopped, threads)
        late |= more
        if clock_s() - looked_s < LOOK_IS_GOOD_FOR_S / 2:
            return table, looked_s, late
    return table, None, late


def _late(
    table: Table, wanted: Sweep, going: Sequence[str], is_stopped: IsStopped, threads: Threads
) -> tuple[Table, dict[str, str]]:
    """The table now, and of the files that may go those that must wait because of what happened since."""
    now = table.catalog.load_table(table.name())
    if str(now.metadata.table_uuid) != wanted.uuid:
        return table, dict.fromkeys(going, "the table was replaced while it was looked at")
    if now.metadata_location == table.metadata_location:
        return now, {}
    if not is_gc_enabled(now.metadata.properties):
        return now, dict.fromkeys(going, "the table says gc.enabled=false")
    back = {snapshot.snapshot_id for snapshot in now.metadata.snapshots} & {
        snapshot_id for taken in wanted.expired.values() for snapshot_id in taken
    }
    if back:
        return now, dict.fromkeys(going, f"snapshot {min(back)} is in the table, though it was expired")
    last, was = last_sequence_number(now.metadata), last_sequence_number(table.metadata)
    if last is not None and was is not None and last < was:
        return now, dict.fromkeys(going, f"the table's last sequence number is {last}, it was {was}")
    found = reached(now.metadata, now.io, going, youngest(table.metadata), is_stopped, threads)
    still = set(going)
    those = [mark for mark in wanted.marks if mark.path in still and mark.cause in FOUND]
    names = needed_names(now, those, youngest(table.metadata), is_stopped, threads).names
    found |= {normalised(mark.path) for mark in those if name_of(mark.path) in names}
    return now, {
        path: "a snapshot that has just come reaches it" for path in going if normalised(path) in found
    }


def gathered(
    table: Table,
    wanted: Sweep,
    is_stopped: IsStopped,
    threads: Threads = THREADS,
    seen_through: int = 0,
) -> Evidence:
    """What the table shows about marked files.

    Raises:
        OSError, UnreadableError: a manifest list or manifest cannot be read.
        Stopped: so it was wanted.
    """
    metadata, marks = table.metadata, wanted.marks
    # Of a job's leftovers it is known that no older snapshot has them. What an expiry left is looked for in all.
    by_sight: dict[Seen | None, list[str]] = {}
    for mark in marks:
        if mark.cause in FOUND:
            continue
        by_sight.setdefault(mark.seen if mark.cause is Cause.LEFTOVER else None, []).append(mark.path)
    found: set[str] = set()
    for seen, paths in by_sight.items():
        found |= reached(metadata, table.io, paths, seen, is_stopped, threads)
    needed = needed_names(table, marks, None, is_stopped, threads)
    again = needed_again(table, wanted, needed.locations, is_stopped, threads)
    unnamed = [
        one
        for one in marks
        if one.cause in FOUND
        and (
            name_of(one.path) not in needed.names
            or one.path in again.at_origin
            or one.path in again.elsewhere
        )
    ]
    beside: Mapping[Cause, str] = {}
    if unnamed and wanted.home is not None:
        before_ms = min(wanted.before_ms.values(), default=0)
        beside = metadata_folder.beside(
            table, wanted.home, wanted.gone, before_ms, is_stopped, threads
        ).against
    return Evidence(
        gc_enabled=is_gc_enabled(metadata.properties),
        last_sequence_number=last_sequence_number(metadata),
        seen_through=seen_through,
        snapshot_ids=frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots),
        reached=frozenset(found),
        names=needed.names,
        moved_names=needed.moved_names,
        sizes=again.sizes,
        in_quarantine=again.in_quarantine,
        at_origin=again.at_origin,
        named_at_origin=again.named_at_origin,
        elsewhere=again.elsewhere,
        known_through=wanted.known_through,
        young=_young(table.io, unnamed, wanted.before_ms, is_stopped, threads) | wanted.not_over,
        strange=_strange(table, unnamed, is_stopped, threads),
        beside=beside,
        stays=wanted.stays,
    )


def _young(
    io: FileIO, found: Iterable[Mark], before_ms: Mapping[Cause, int], is_stopped: IsStopped, threads: Threads
) -> frozenset[str]:
    """Of files that were found, those that are not as old as they must be, by the store. What is not there is."""

    def is_young(mark: Mark) -> bool:
        if is_stopped():
            raise Stopped
        try:
            at_ms = written_at_ms(io, mark.path)
        except Exception:  # noqa: BLE001 (one file that cannot be looked at stays, and holds up no other)
            return True
        return at_ms is not None and at_ms >= before_ms[mark.cause]

    asked = [mark for mark in found if mark.cause in before_ms]
    answers = zip(asked, threads.each(is_young, asked, REQUESTS_AT_ONCE), strict=True)
    return frozenset(mark.path for mark, young in answers if young)


def _strange(table: Table, found: Iterable[Mark], is_stopped: IsStopped, threads: Threads) -> dict[str, str]:
    """Of files that were found as old versions, those whose text does not show that they are, with why."""

    def why(mark: Mark) -> str | None:
        if is_stopped():
            raise Stopped
        try:
            return further_than(table.io, mark.path, table)
        except FileNotFoundError:
            return None
        except Exception as err:  # noqa: BLE001 (every store has errors of its own; one file holds up no other)
            return f"it cannot be read: {type(err).__name__}: {err}"

    asked = [mark for mark in found if mark.cause is Cause.OLD_VERSION]
    answers = zip(asked, threads.each(why, asked, REQUESTS_AT_ONCE), strict=True)
    return {mark.path: said for mark, said in answers if said is not None}


@dataclass(frozen=True, slots=True)
class NeededNames:
    """Of files that were found in a table's folders, the names that the table needs."""

    names: frozenset[str]
    moved_names: frozenset[str]
    """Of these, those of files that it has in its quarantine."""
    locations: Mapping[str, Collection[str]]
    """By name, of orphans and of what is in quarantine: the locations that the table names."""


def needed_names(
    table: Table, marks: Iterable[Mark], seen: Seen | None, is_stopped: IsStopped, threads: Threads
) -> NeededNames:
    """The names that a table needs of files that were found in its folders; up to `seen`, it needs none."""
    wanted: dict[Cause, set[str]] = {cause: set() for cause in Cause}
    for mark in marks:
        wanted[mark.cause].add(name_of(mark.path))
    found = {name_of(one) for location in versions(table) for one in taken_for(location)}
    found &= wanted[Cause.OLD_VERSION]
    moved: set[str] = set()
    named: dict[str, set[str]] = {}
    if orphans := wanted[Cause.ORPHAN] | wanted[Cause.QUARANTINED]:
        for some in reaching(table.metadata, table.io, ByName(orphans), seen, is_stopped, threads):
            locations = list(some)
            for location in locations:
                named.setdefault(name_of(location), set()).add(location)
            moved.update(name_of(one) for one in locations if f"/{FOLDER}/" in one)
    return NeededNames(frozenset(found | named.keys()), frozenset(moved), named)


def _is_young(io: FileIO, path: str, before_ms: int, *, may_be_gone: bool) -> bool:
    """Whether a file was written after this. Raises FileNotFoundError where it is not there, unless it may be gone."""
    at_ms = written_at_ms(io, path)
    if at_ms is None and not may_be_gone:
        raise FileNotFoundError(path)
    return at_ms is not None and at_ms >= before_ms


def deleted(
    io: FileIO,
    paths: Sequence[str],
    is_stopped: IsStopped = never,
    threads: Threads = THREADS,
    before_ms: Mapping[str, int] = NO_AGES,
    take: Callable[[FileIO, str, IsStopped], None] = lambda io, path, _: io.delete(path),
    moves: Container[str] = (),
) -> tuple[list[str], dict[str, str]]:
    """Delete files; gives those that are gone, and why others are not. What was not there is gone.

    Args:
        io: how they are deleted.
        paths: the files.
        is_stopped: asked before each.
        threads: how they are deleted together.
        before_ms: by path: only if it was written before this, by the store's clock. It is asked right before.
        take: what is done with each.
        moves: those that are not deleted but moved, and may lie where they go already. Nothing is asked of any other that
            is not there: somebody may put it back just now.
    """
    gone: list[str] = []
    failed: dict[str, str] = {}

    def delete(path: str) -> str | None:
        if is_stopped():
            return STOPPED
        try:
            if path in before_ms and _is_young(io, path, before_ms[path], may_be_gone=path in moves):
                return "it was written again since it was looked at"
            take(io, path, is_stopped)
        except FileNotFoundError:
            return None
        except Stopped:
            return STOPPED
        except Exception as err:  # noqa: BLE001 (every store has errors of its own)
            return f"{type(err).__name__}: {err}"
        return None

    for path, why in zip(paths, threads.each(delete, paths, REQUESTS_AT_ONCE), strict=True):
        if why is None:
            gone.append(path)
        elif why is not STOPPED:
            failed[path] = why
    return gone, failed
