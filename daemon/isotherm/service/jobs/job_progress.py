"""How far rewrites are, as it is told: to the metrics every few seconds, to the log once a minute of those that take long.

The executor knows it without waiting for anything, so a turn of the loop costs what it takes to add up some numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.progress import Progress, left_s, share_of
from isotherm.core.observations import JobGoesOn, RewritesRun
from isotherm.store.ledger import Operation

TOLD_EVERY_S = 5.0
LOGGED_EVERY_S = 60.0
"""Most jobs end before that, and nobody wants to read of them."""


@dataclass(slots=True)
class _Seen:
    """A rewrite that runs."""

    began_s: float
    rows: int
    """Of its data files: there may be ten thousand, so they are added up once."""
    log_at_s: float
    reads_since_s: float
    """Until it reads something, it waits for its turn, or for its process: that says nothing of its pace."""


@dataclass(slots=True)
class JobProgress:
    """What was told of those that run."""

    _next_s: float = float("-inf")
    _seen: dict[str, _Seen] = field(default_factory=dict)
    """By job id."""
    _tables: dict[str, TableId] = field(default_factory=dict)
    """By uuid: those of which a rewrite was told to run."""

    def turn(
        self,
        running: Iterable[tuple[Operation, CompactionJob]],
        progress: Callable[[], Mapping[str, Progress]],
        now_s: float,
    ) -> Iterator[JobGoesOn | RewritesRun]:
        """What is to be told now.

        Args:
            running: the jobs that were started and are not over.
            progress: says how far each of those is that the executor has.
            now_s: a clock that nobody sets.
        """
        if now_s < self._next_s:
            return
        self._next_s = now_s + TOLD_EVERY_S
        far = progress()
        rewritten = [one for one in running if one[1].job_id in far]
        self._seen = {
            job.job_id: self._seen.get(job.job_id) or _first_seen(job, now_s) for _, job in rewritten
        }
        for _, job in rewritten:
            if not far[job.job_id].bytes_read:
                self._seen[job.job_id].reads_since_s = now_s
        each = [self._goes_on(operation, job, far[job.job_id], now_s) for operation, job in rewritten]
        for told in each:
            one = self._seen[told.job_id]
            if now_s >= one.log_at_s:
                one.log_at_s = now_s + LOGGED_EVERY_S
                yield told
        yield from self._sums(each)

    def _goes_on(self, operation: Operation, job: CompactionJob, far: Progress, now_s: float) -> JobGoesOn:
        one = self._seen[job.job_id]
        seconds, all_bytes = now_s - one.began_s, operation.bytes_planned
        share = None if far.unknown else share_of(far.bytes_read, all_bytes)
        left = None if share is None else left_s(share, now_s - one.reads_since_s)
        return JobGoesOn(
            operation.table,
            operation.action,
            job.job_id,
            operation.label,
            round(seconds),
            far.rows_read,
            one.rows,
            far.bytes_read,
            all_bytes,
            far.rows_written,
            far.bytes_written,
            None if share is None else round(share, 3),
            None if left is None else round(left),
            far.unknown,
        )

    def _sums(self, each: Iterable[JobGoesOn]) -> Iterator[RewritesRun]:
        """One for each table, and one for each of which no rewrite runs any more."""
        sums: dict[str, RewritesRun] = {}
        for one in each:
            if one.why:
                continue
            before = sums.get(one.table.uuid) or RewritesRun(one.table, 0)
            sums[one.table.uuid] = RewritesRun(
                one.table,
                before.jobs + 1,
                before.rows + one.rows,
                before.bytes + one.bytes,
                before.rows_read + one.rows_read,
                before.bytes_read + one.bytes_read,
                before.rows_written + one.rows_written,
                before.bytes_written + one.bytes_written,
                (*before.each, one),
            )
        over = [table for uuid, table in self._tables.items() if uuid not in sums]
        self._tables = {uuid: one.table for uuid, one in sums.items()}
        yield from sums.values()
        yield from (RewritesRun(table, 0) for table in over)


def _first_seen(job: CompactionJob, now_s: float) -> _Seen:
    return _Seen(now_s, sum(file.rows for file in job.data_files), now_s + LOGGED_EVERY_S, now_s)
