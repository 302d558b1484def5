"""Whether what lies in an older partition spec is written in the table's current one (`compact.output_spec: current`).

It is due when it is cold, however few its files are, and once each partition of the current spec into which its rows go is
cold by the same rules. One that is not there yet has no writer to be quiet, so its time must have passed. Where the key does
not tell where the rows go, the files do, once a job is bound to them: here only the event time is known before which every
partition that may come of them has passed. It is all asked again when the job is bound, and the last thing before its swap.
What the files say against it holds for an hour, then longer, up to a day: meanwhile they are compacted in their own spec.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from isotherm.contract.identity import PartitionKey, partition_key
from isotherm.core.model.decisions import Decision, Verdict, Wake, sooner
from isotherm.core.model.holds import Quarantine
from isotherm.core.model.job_limits import MAX_OUTPUTS
from isotherm.core.model.jobs import Action, OutputSpec, Take
from isotherm.core.model.tables import PartitionField, TableFacts
from isotherm.core.older_specs import WITHOUT_VALUE, is_older, only_field, ordinal, outputs_of, span_of
from isotherm.core.partition_state import NO_PARTITION, PartitionState
from isotherm.core.partitions import label, time_span
from isotherm.core.planner.coldness import HEAR_AGAIN_MS, Finding, first_hot
from isotherm.core.planner.held import QUARANTINE_FAILURES
from isotherm.core.planner.view import Surroundings, View
from isotherm.core.policy.policy import Cold, Policy
from isotherm.core.units import span_text

WHOLE_BYTES = 2**62
"""No file is as large: small and large ones are taken."""
LOOKED_BACK = 400
"""Partitions behind the stream that are asked one after another for the youngest that is cold: one as a rule, because how far
behind it must end is known."""


@dataclass(frozen=True, slots=True)
class Move:
    """What is written in the current spec now, or why nothing is."""

    take: Take | None = None
    why: str = ""
    """Why its files stay in their spec, or what is moved."""
    hot: Finding | None = None
    """What keeps a partition hot into which its rows would go: they stay for now."""
    until_ms: int | None = None
    """Until then it is not tried again: its files said why not."""

    @property
    def kind(self) -> Verdict | None:
        """The verdict where nothing else is due, if it decides that."""
        return None if self.hot is None else Verdict.HOT

    @property
    def wake(self) -> Wake:
        """When it is asked again."""
        return Wake(at_ms=self.until_ms) if self.hot is None else self.hot.wake

    @property
    def said(self) -> str:
        """Why nothing is moved, to be added to what else is said of the partition."""
        return (
            ""
            if self.take is not None or not self.why
            else f"; it stays in an older partition spec: {self.why}"
        )


NO_MOVE = Move()


def move_of(key: PartitionKey, partition: PartitionState, view: View, policy: Policy, now_ms: int) -> Move:
    """What is to be moved of a cold partition."""
    facts = view.facts
    if policy.compact.output_spec is OutputSpec.OWN or view.outputs is None:
        return NO_MOVE
    if not partition.data or not is_older(key, facts):
        return NO_MOVE
    field = only_field(facts.fields)
    if field is None or facts.not_moved:
        return Move(why=facts.not_moved)
    if (refused := _refused_lately(view.quarantined.get(key), now_ms)) is not None:
        return refused
    size_bytes = partition.data_total.bytes + partition.deletes_total.bytes
    outputs = outputs_of(key, facts.fields)
    take = Take(below_bytes=WHOLE_BYTES, with_deletes=True, output_spec_id=facts.default_spec_id)
    if outputs is None:
        before_ms, hot = _cold_before(field, view.around, policy.cold, now_ms, size_bytes)
        if before_ms is None:
            return _waits(f"{field.name} of the stream", hot)
        return Move(replace(take, before_ms=before_ms), f"into {field.name}")
    if len(outputs) > MAX_OUTPUTS:
        return Move(why=f"its rows go into more than {MAX_OUTPUTS} partitions of the current one")
    if (hot_one := _first_hot(outputs, view, view.outputs, policy.cold, now_ms, size_bytes)) is not None:
        return _waits(*hot_one)
    name = label(outputs[0], facts.fields)
    return Move(take, f"into {name}" if len(outputs) == 1 else f"into {len(outputs)} of {field.name}")


def _first_hot(
    outputs: Iterable[PartitionKey],
    view: View,
    known: Mapping[PartitionKey, PartitionState],
    cold: Cold,
    now_ms: int,
    size_bytes: int,
) -> tuple[str, Finding] | None:
    """The first of some partitions that keeps rows from being moved into it, and what does; None where all are cold."""
    flying = {flight.partition for flight in view.flights if flight.action is Action.COMPACT}
    # Sixty-four buckets of a month ask of the same 744 hours, with jobs of about the same size.
    size_bytes = 1 << size_bytes.bit_length()
    for output in outputs:
        if (output, size_bytes) not in view.findings:
            found = output_hot(output, known.get(output), view.around, cold, now_ms, size_bytes)
            view.findings[output, size_bytes] = found
        hot = view.findings[output, size_bytes]
        if output in flying:
            hot = Finding("running", True, "a job of it is running", Wake(at_ms=now_ms + HEAR_AGAIN_MS))
        if hot is not None:
            return label(output, view.facts.fields), hot
    return None


def _refused_lately(quarantine: Quarantine | None, now_ms: int) -> Move | None:
    """What the files said against it the last time, while that holds."""
    if quarantine is None:
        return None
    if quarantine.failures >= QUARANTINE_FAILURES:
        # Perhaps only such jobs fail. One that goes well in its own spec ends this.
        return Move(why=f"its jobs failed {quarantine.failures} times in a row ({quarantine.why})")
    if not quarantine.is_of_move or quarantine.until_ms <= now_ms:
        return None
    why = quarantine.why.partition(": ")[2]
    left = span_text(quarantine.until_ms - now_ms)
    return Move(why=f"{why} (asked again in {left})", until_ms=quarantine.until_ms)


def _waits(name: str, hot: Finding | None) -> Move:
    why = "nothing tells what of it is cold" if hot is None else hot.why
    return Move(why=f"its rows go into {name}, hot: {why}", hot=hot or Finding("boundary", True, why))


def output_hot(
    key: PartitionKey,
    partition: PartitionState | None,
    around: Surroundings,
    cold: Cold,
    now_ms: int,
    size_bytes: int,
) -> Finding | None:
    """What keeps a partition hot into which rows are to be moved; None where it is cold.

    Args:
        key: the partition, of the current spec.
        partition: as it is known, or None where it is not there.
        around: of its table. Windows count for nothing: they are granted for what is there.
        cold: the policy's rules.
        now_ms: the time.
        size_bytes: what the job reads.
    """
    if partition is None and time_span(key, around.fields) is None:
        return Finding("boundary", True, "it is not there yet, and has no time that could have passed")
    asked = partition or NO_PARTITION
    return first_hot(key, asked, replace(around, grants=()), cold, now_ms, lambda _: size_bytes)


def _cold_before(
    field: PartitionField, around: Surroundings, cold: Cold, now_ms: int, size_bytes: int
) -> tuple[int | None, Finding | None]:
    """The end of the youngest partition that is cold, if it is not there yet; else None, and what keeps the last one hot."""
    hot, boundary_ms = None, around.state.boundary_ms
    if boundary_ms is None:
        return None, Finding(
            "boundary", True, "nothing says yet how far the stream has come", Wake(boundary_ms=0)
        )
    number = ordinal(boundary_ms, field)
    for _ in range(LOOKED_BACK):
        span = span_of(field, number)
        hot = output_hot(partition_key({field.field_id: number}), None, around, cold, now_ms, size_bytes)
        if hot is None:
            return span.end_ms, None
        lacks_ms = (hot.wake.boundary_ms or 0) - boundary_ms if hot.rule == "boundary" else 0
        number -= max(lacks_ms // span.length_ms, 1)
    return None, hot


def flying_into(view: View, policy: Policy) -> set[PartitionKey]:
    """The partitions into which running jobs move rows, as far as keys tell."""
    if policy.compact.output_spec is OutputSpec.OWN:
        return set()
    facts: TableFacts = view.facts
    older = [
        flight.partition
        for flight in view.flights
        if flight.action is Action.COMPACT
        and flight.partition is not None
        and is_older(flight.partition, facts)
    ]
    return {output for key in older for output in outputs_of(key, facts.fields) or ()}


def moved_first(view: View, decisions: Iterable[Decision], now_ms: int) -> tuple[Decision, ...]:
    """Some verdicts, of which those on partitions wait into which rows are moved now: each job of theirs would be in vain."""
    decisions = tuple(decisions)
    moving = {
        output: one.label
        for one in decisions
        if one.verdict is Verdict.DUE and one.take is not None and one.take.output_spec_id is not None
        for output in outputs_of(one.partition or WITHOUT_VALUE, view.facts.fields) or ()
    }
    return tuple(_after(one, moving, now_ms) for one in decisions) if moving else decisions


def _after(decision: Decision, moving: Mapping[PartitionKey, str], now_ms: int) -> Decision:
    by = None if decision.partition is None else moving.get(decision.partition)
    if by is None or decision.verdict is not Verdict.DUE:
        return decision
    why = f"{decision.why}; it waits until the rows of {by} are moved into it"
    wake = sooner(decision.wake, Wake(at_ms=now_ms + HEAR_AGAIN_MS))
    return replace(decision, verdict=Verdict.WAITING, why=why, wake=wake)
