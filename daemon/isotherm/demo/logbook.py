"""What our processes say in their JSON logs, as they say it: counters for the report, and what the writer complains of.

Lines that are no JSON (a JVM's, a warning of some library's) are passed over.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from isotherm.audit.evidence import FailedBatch, Recomputed

BATCH_S = 60
"""Where the log of a failed batch does not say how long it ran: it began at most this long before."""

ERROR_SHOWN = 120
"""Characters by which the errors of a procedure are told apart."""


@dataclass(slots=True)
class Tail:
    """The new lines of a log since the last look."""

    path: Path
    _offset: int = 0
    _rest: bytes = b""

    def lines(self) -> Iterator[Mapping[str, Any]]:
        """Each complete new line that is a JSON object."""
        try:
            with self.path.open("rb") as log:
                log.seek(self._offset)
                new = log.read()
        except FileNotFoundError:
            return
        self._offset += len(new)
        *complete, self._rest = (self._rest + new).split(b"\n")
        for line in complete:
            # A progress bar may have been drawn before it, on the same line.
            begin = line.find(b'{"')
            if begin < 0:
                continue
            try:
                value = json.loads(line[begin:])
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


@dataclass(slots=True)
class Logbook:
    """What was said so far."""

    ingest: Tail
    daemon: Tail
    timer: Tail | None = None
    recomputed: dict[str, list[Recomputed]] = field(default_factory=dict)
    """By table."""
    failed: dict[str, list[FailedBatch]] = field(default_factory=dict)
    """By table; `""`: of no table in particular."""
    counts: dict[str, int] = field(default_factory=dict)
    """`program.event` → how often."""
    jobs_running: dict[str, str] = field(default_factory=dict)
    """Job id → table and partition."""
    last_job: str = ""
    newest: str = ""
    """The newest event of ingest."""
    full_scans: dict[str, int] = field(default_factory=dict)
    """The daemon's reasons for reading a whole table, numbers left out, and how often."""
    commits_s: list[float] = field(default_factory=list)
    """How long each commit of ingest took, from its files to the new snapshot."""
    procedures: dict[str, int] = field(default_factory=dict)
    """How many calls of the timer came to which end."""
    round_began_ms: int = 0
    """When the timer's newest whole round began."""
    complaints: list[str] = field(default_factory=list)
    """Lines of level error, the newest last."""

    def read(self) -> None:
        """Take in what is new."""
        for line in self.ingest.lines():
            self._count("ingest", line)
            match line.get("event"):
                case "merge_recomputed":
                    self.recomputed.setdefault(str(line.get("table", "")), []).append(_recomputed(line))
                case "batch_failed":
                    self.failed.setdefault(str(line.get("table") or ""), []).append(_failed(line))
                case "table_committed":
                    self.commits_s.append(float(line.get("seconds", 0)))
                case _:
                    pass
        for line in self.daemon.lines():
            self._count("daemon", line)
            self._job(line)
        for line in self.timer.lines() if self.timer is not None else ():
            self._count("timer", line)
            self._procedure(line)

    def times(self, program: str, event: str) -> int:
        """How often something was said."""
        return self.counts.get(f"{program}.{event}", 0)

    def _count(self, program: str, line: Mapping[str, Any]) -> None:
        name = f"{program}.{line.get('event')}"
        if program == "ingest":
            self.newest = f"ingest: {line.get('event')} {line.get('table') or ''}".strip()
        self.counts[name] = self.counts.get(name, 0) + 1
        if line.get("level") in ("error", "critical"):
            self.complaints.append(f"{program}: {json.dumps(line, ensure_ascii=False, default=str)[:600]}")

    def _job(self, line: Mapping[str, Any]) -> None:
        what = f"{line.get('action')} {line.get('table')} {line.get('label', '')}".strip()
        match line.get("event"):
            case "started":
                self.jobs_running.clear()
            case "table_scanned":
                why = re.sub(r"\d{4,}", "…", str(line.get("why")))
                self.full_scans[why] = self.full_scans.get(why, 0) + 1
            case "job_started":
                self.jobs_running[str(line.get("job_id"))] = what
            case "job_ended":
                self.jobs_running.pop(str(line.get("job_id")), None)
                result = f"{line.get('files_before')} → {line.get('files_after')}"
                self.last_job = f"{what}: {result if line.get('outcome') == 'done' else line.get('why')}"
            case _:
                pass

    def _procedure(self, line: Mapping[str, Any]) -> None:
        match line.get("event"):
            case "procedure_done":
                end = f"{line.get('procedure')} done"
            case "procedure_failed":
                end = f"{line.get('procedure')} failed ({str(line.get('error'))[:ERROR_SHOWN]})"
            case "round_done":
                self.round_began_ms = int(line.get("began_ms", 0))
                return
            case _:
                return
        self.procedures[end] = self.procedures.get(end, 0) + 1
        self.last_job = f"{line.get('table')}: {end}"


def _at_ms(line: Mapping[str, Any]) -> int:
    try:
        return int(datetime.fromisoformat(str(line.get("timestamp", ""))).timestamp() * 1000)
    except ValueError:
        return 0


def _id(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _first(line: Mapping[str, Any], *names: str) -> Any:
    return next((line[name] for name in names if line.get(name) is not None), None)


def _recomputed(line: Mapping[str, Any]) -> Recomputed:
    return Recomputed(
        at_ms=_at_ms(line),
        intent_id=str(line.get("intent_id", "")),
        base_id=_id(_first(line, "base_snapshot_id", "base")),
        head_id=_id(_first(line, "head_snapshot_id", "head")),
    )


def _failed(line: Mapping[str, Any]) -> FailedBatch:
    at_ms = _at_ms(line)
    seconds = line.get("seconds")
    span_ms = int((seconds if isinstance(seconds, int | float) else BATCH_S) * 1000)
    return FailedBatch(at_ms, at_ms - span_ms, str(line.get("error", "")))
