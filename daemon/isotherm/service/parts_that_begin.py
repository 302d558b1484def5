"""Builds the parts that begin work: in rounds, between them, and in windows."""

from typing import TYPE_CHECKING

from isotherm.service.jobs.table_work import TableWork
from isotherm.service.rounds.admission import Admission
from isotherm.service.rounds.due_work import DueWork
from isotherm.service.rounds.windows import Windows

if TYPE_CHECKING:
    from isotherm.service.parts import Parts


def due_work(parts: "Parts", table_work: TableWork) -> DueWork:
    """What begins what a round found due."""
    admission = Admission(
        parts.ledger,
        parts.verdicts,
        parts.compactions,
        parts.barrier.is_aside,
        parts.now_ms,
        parts.config.executors.local.jobs_at_once,
        parts.config.budgets.bytes_per_hour,
        parts.config.executors.cluster_jobs_at_once,
    )
    return DueWork(
        fold=parts.fold,
        follower=parts.follower,
        verdicts=parts.verdicts,
        compactions=parts.compactions,
        table_work=table_work,
        admission=admission,
        barrier=parts.barrier,
        health=parts.health,
        owns=parts.events.owns,
        confirm=lambda name: parts.rounds.confirm(name),  # noqa: PLW0108 (there are none yet)
        read_to_the_end=parts.consumer.read_to_the_end,
        now_ms=parts.now_ms,
        monotonic_s=parts.monotonic_s,
    )


def windows(parts: "Parts") -> Windows:
    """What asks writers to leave a table alone, and has it compacted meanwhile."""
    return Windows(
        fold=parts.fold,
        events=parts.events,
        book=parts.granted,
        verdicts=parts.verdicts,
        compactions=parts.compactions,
        flights=parts.rounds.due.flights,
        confirm=parts.rounds.confirm,
        begin=parts.rounds.begin_in_window,
        jobs_at_once=parts.config.executors.local.jobs_at_once,
        barrier=parts.barrier,
        listen=parts.listen,
        now_ms=parts.now_ms,
        monotonic_s=parts.monotonic_s,
    )
