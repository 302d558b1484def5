"""How tables, jobs and the loop stand, as JSON at /tables: for `isotherm top` and `isotherm tables`.

A listener, as the metrics are: it knows what was told since this process began, and asks nobody. So a request costs neither
the loop nor a store anything. Tables at rest are not told of, and only counted.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from threading import Lock

from isotherm.core import observations as seen
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.outside import Outside
from isotherm.core.observations import Observation
from isotherm.core.standings import Standing, Word, word_of, worst_first
from isotherm.runtime.secrets import without_secrets
from isotherm.service.health import Health

MOST_TABLES = 1_000
"""Of the answer, the worst: a third of a megabyte."""
MOST_KEPT = 20_000
"""Tables of which something is remembered: events may name any number of tables that are none."""
MOST_CHARS = 300
"""Of a why."""


@dataclass(slots=True)
class _Told:
    """What was told of one table."""

    planned: seen.TablePlanned | None = None
    planned_at_ms: int | None = None
    trouble: str = ""
    holds: dict[HoldKind, str] = field(default_factory=dict)
    failed: int = 0
    """Jobs in a row that failed."""
    failure: str = ""
    jobs: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Job:
    """A job that runs."""

    table: str
    action: str
    label: str
    began_at_ms: int
    files: int
    bytes: int
    bytes_read: int = 0
    rows: int = 0
    rows_read: int = 0
    share: float | None = None
    """The part that was read, or None where nobody can say."""
    seconds_left: int | None = None


class Board:
    """A listener that remembers."""

    def __init__(self, health: Health, now_ms: Callable[[], int]) -> None:
        self._health = health
        self._now_ms = now_ms
        self._began_at_ms = now_ms()
        self._lock = Lock()
        """The loop tells, and threads of the port ask."""
        self._tables: dict[str, _Told] = {}
        self._jobs: dict[str, Job] = {}
        self._round: dict[str, object] | None = None
        self._policies = ""

    def __call__(self, what: Observation) -> None:
        """Remember one observation."""
        with self._lock:
            match what:
                case seen.RoundPlanned():
                    self._round = {
                        "ended_at_ms": self._now_ms(),
                        "seconds": round(what.seconds, 3),
                        "tables": what.tables,
                        "due": what.requests,
                        "started": what.started,
                        "away": list(what.away),
                        "deletions_held": what.deletions_held,
                    }
                case seen.PoliciesLoaded():
                    self._policies = "" if what.ok else what.complaints
                case seen.JobStarted() | seen.JobEnded() | seen.RewritesRun():
                    self._hear_job(what)
                case seen.TableGone() | seen.TableMoved() | seen.TableRefused():
                    self._tables.pop(what.table.name, None)
                case _:
                    self._hear_table(what)

    def _of(self, name: str) -> _Told:
        if name not in self._tables and len(self._tables) >= MOST_KEPT:
            return _Told()  # told of, and not kept
        return self._tables.setdefault(name, _Told())

    def _hear_table(self, what: Observation) -> None:
        match what:
            case seen.TablePlanned():
                told = self._of(what.table.name)
                told.planned, told.planned_at_ms, told.trouble = what, self._now_ms(), ""
            case seen.TableFailed():
                self._of(what.name).trouble = f"{what.doing}: {what.error}"
            case seen.TrySoon() if what.kind in (Outside.TABLE, Outside.STORAGE):
                self._of(what.what.removeprefix("table ")).trouble = what.error
            case seen.TableRecovered():
                self._of(what.name).trouble = ""
            case seen.TableHalted():
                self._of(what.table.name).holds[HoldKind.HALT] = f"{what.reason}: {what.why}"
            case seen.HoldChanged() if what.kind in (HoldKind.HALT, HoldKind.PAUSE):
                holds = self._of(what.table.name).holds
                holds.pop(what.kind, None)
                if what.is_held:
                    holds[what.kind] = what.why
            case _:
                pass

    def _hear_job(self, what: seen.JobStarted | seen.JobEnded | seen.RewritesRun) -> None:
        told = self._of(what.table.name)
        match what:
            case seen.JobStarted():
                told.jobs.add(what.job_id)
                self._jobs[what.job_id] = Job(
                    what.table.name, what.action, what.label, self._now_ms(), what.files, what.bytes
                )
            case seen.JobEnded():
                told.jobs.discard(what.job_id)
                self._jobs.pop(what.job_id, None)
                if what.outcome == "failed":
                    told.failed, told.failure = told.failed + 1, f"{what.reason}: {what.why}"
                elif what.outcome == "done":
                    told.failed, told.failure = 0, ""
            case seen.RewritesRun():
                for one in what.each:
                    if (job := self._jobs.get(one.job_id)) is not None:
                        self._jobs[one.job_id] = replace(
                            job,
                            bytes_read=one.bytes_read,
                            rows=one.rows,
                            rows_read=one.rows_read,
                            share=one.share,
                            seconds_left=one.seconds_left,
                        )

    def page(self) -> bytes:
        """The answer."""
        health = self._health
        with self._lock:
            standings = worst_first(_standing(name, told) for name, told in self._tables.items())
            jobs = sorted(self._jobs.values(), key=lambda one: (one.began_at_ms, one.table))
            counts: dict[str, int] = {}
            for one in standings:
                counts[one.word] = counts.get(one.word, 0) + 1
            answer = {
                "now_ms": self._now_ms(),
                "began_at_ms": self._began_at_ms,
                "tables_here": len(health.tables),
                "tables_elsewhere": sorted(health.elsewhere)[:MOST_TABLES],
                "events_behind": health.behind,
                "round": self._round,
                "policies": self._policies,
                "counts": counts,
                "jobs": [asdict(one) for one in jobs],
                "tables": [asdict(one) for one in standings[:MOST_TABLES]],
            }
        return without_secrets(json.dumps(answer, ensure_ascii=False)).encode()


def _standing(name: str, told: _Told) -> Standing:
    planned = told.planned
    why = told.trouble or told.holds.get(HoldKind.HALT) or told.failure or told.holds.get(HoldKind.PAUSE, "")
    if planned is None:
        word = word_of(
            trouble=bool(told.trouble),
            halted=HoldKind.HALT in told.holds,
            failed=told.failed,
            paused=HoldKind.PAUSE in told.holds,
            running=len(told.jobs),
            is_decided=False,
        )
        return Standing(name, word, why[:MOST_CHARS], running=len(told.jobs), failed=told.failed)
    failed = max(planned.quarantined, told.failed)
    word = word_of(
        trouble=bool(told.trouble),
        halted=planned.halted,
        paused=planned.paused,
        failed=failed,
        due=planned.due + len(planned.due_actions),
        running=len(told.jobs),
        waiting=planned.waiting,
        owes_hot=planned.hot_score >= 1,
        unsupported=planned.unsupported,
    )
    return Standing(
        name,
        word,
        "" if word in (Word.CLEAN, Word.DUE, Word.HOT) else why[:MOST_CHARS],
        score=round(planned.score, 3),
        hot_score=round(planned.hot_score, 3),
        partitions=planned.partitions,
        due=planned.due,
        hot=planned.hot,
        waiting=planned.waiting,
        running=len(told.jobs),
        failed=failed,
        due_since_ms=planned.oldest_due_at_ms,
        looked_at_ms=told.planned_at_ms,
        next_what=", ".join([*([f"compact {planned.due}"] if planned.due else []), *planned.due_actions]),
    )
