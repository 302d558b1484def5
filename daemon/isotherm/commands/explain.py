"""`isotherm explain`: each condition of a decision, its value, its limit, and where the limit comes from.

The conditions are those of the planner's own rules, so an explanation cannot differ from what the service does.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from isotherm.commands.inspector import HISTORY, Inspector
from isotherm.commands.options import Output
from isotherm.commands.plan_lines import tally_text
from isotherm.commands.terminal import (
    VERDICT_STYLES,
    inspector_of,
    out,
    plain_errors,
    print_complaints,
    print_json,
)
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import NEVER, Decision, Plan, Verdict, Wake
from isotherm.core.model.jobs import Action, ExecutorName
from isotherm.core.planner.coldness import findings, first_hot
from isotherm.core.planner.debt import Debt
from isotherm.core.planner.expirable import FOREVER_MS, ripe_on_main_ms
from isotherm.core.planner.held import crowded, not_published
from isotherm.core.planner.job_size import job_bytes
from isotherm.core.planner.minor import OPTION, Old, old_files
from isotherm.core.planner.plan import owed_now, plan
from isotherm.core.planner.rest import REST_SCORE, rest_text, rests_until
from isotherm.core.planner.schedules import Pace
from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import Resolved
from isotherm.core.policy.zone_names import moment_text
from isotherm.core.reads import reads_text, weight
from isotherm.core.units import clock_text, span_text
from isotherm.runtime.clock import now_ms
from isotherm.runtime.text import counted
from isotherm.service.ports import UnknownTable
from isotherm.store.fold import TableRow


def show_explanation(table: str, partition: str | None, config: Path, output: Output) -> None:
    """Each condition: value, limit, where the limit comes from, and when it could change."""
    with plain_errors():
        inspector = inspector_of(config)
        explanation = explained(inspector, table, partition, now_ms())
        print_complaints(inspector.policies.complaints)
        if output is Output.JSON:
            print_json(explanation)
            return
        print_explanation(explanation, out)


COLD, MAY_GO, KEPT, OPEN, BESIDE = "cold", "may go", "kept", "open", "beside"
_STYLES = {
    **{str(verdict): style for verdict, style in VERDICT_STYLES.items()},
    **dict.fromkeys((COLD, OPEN, BESIDE), "green"),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One line of an explanation."""

    name: str
    word: str
    """What it comes to: `hot` or `cold` (`beside`: old files may be merged beside the writers), `due` or `clean`, `open` or
    `waiting`, `may go` or `kept`, or the verdict on work on the table."""
    holds: bool
    """Whether it lets the work go ahead."""
    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why something is, or is not, done."""

    table: str
    subject: str
    verdict: Verdict
    score: float
    why: str
    conditions: tuple[Condition, ...]
    next_at: str
    history: tuple[str, ...]
    reads: str = ""
    """How often the table is read, and what that is worth; nothing where nobody has reported it."""


def print_explanation(one: Explanation, out: Console) -> None:
    """The verdict, each condition in a table, and what was done before."""
    out.print(Text.assemble((one.table, "bold"), f"  {one.subject}"))
    said = one.why.startswith(one.verdict)
    why = one.why if said else f"{one.verdict}: {one.why}"
    out.print(Text(why, style=VERDICT_STYLES[one.verdict]))
    grid = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("condition", "is", "because", "limit from"):
        grid.add_column(heading, overflow="fold")
    for condition in one.conditions:
        word = Text(condition.word, _STYLES.get(condition.word, ""))
        grid.add_row(condition.name, word, condition.text, condition.origin)
    out.print(grid)
    if one.next_at:
        out.print(f"can change {one.next_at}")
    if one.reads:
        out.print(one.reads)
    for line in one.history:
        out.print(Text(line, style="dim"))


def _decision(planned: Plan, partition: str) -> Decision:
    for decision in planned.of_partitions:
        if partition in (decision.label, decision.partition):
            return decision
    near = [d.label for d in planned.of_partitions if partition in d.label][:5]
    known = ", ".join(near or [d.label for d in planned.of_partitions[:5]]) or "none"
    raise UnknownTable(f"{planned.table.name} has no partition {partition}; it has, for instance: {known}")


def explained(inspector: Inspector, table: str, partition: str | None, now_ms: int) -> Explanation:
    """Each condition for one partition, or for the table's snapshots."""
    row = inspector.row(table)
    policy = inspector.verdicts.policy_of(row)
    resolved = policy or Resolved(Policy(), {})
    view = inspector.view(row)
    planned = plan(view, None if policy is None else policy.policy, now_ms)
    if partition is None:
        explanation = _of_table(inspector, row, view, planned, resolved, now_ms)
    else:
        explanation = _of_partition(inspector, row, view, planned, partition, resolved, now_ms)
    explanation = replace(explanation, reads=_reads(inspector.verdicts.reads_per_day(row.state.table.uuid)))
    policies = inspector.policies
    stands_in = [said for said in (policies.stands_in(table),) if said]
    why = policies.why_none(table) if policy is None else "; ".join([explanation.why, *stands_in])
    return replace(explanation, why=why)


def _reads(per_day: float | None) -> str:
    if per_day is None:
        return ""
    worth = f"a minute of waiting for its turn counts as up to {1 + weight(per_day):.2f}"
    return f"{reads_text(per_day)}, as engines report: {worth}"


def _of_partition(
    inspector: Inspector,
    row: TableRow,
    view: View,
    planned: Plan,
    partition: str,
    resolved: Resolved,
    now_ms: int,
) -> Explanation:
    decision = _decision(planned, partition)
    key = decision.partition
    assert key is not None  # noqa: S101 (only the table's own decision has none)
    conditions = (
        *_coldness(key, view, resolved, now_ms),
        *_minor(key, view, resolved, now_ms),
        *_debt(key, view, resolved, now_ms),
        *rest_conditions(key, view, decision, resolved, now_ms),
        *_windows(resolved, now_ms),
        *_held_by_table(view, resolved, now_ms),
        *_turn(inspector, planned, key, now_ms),
    )
    return Explanation(
        table=row.state.table.name,
        subject=decision.label,
        verdict=decision.verdict,
        score=decision.score,
        why=decision.why,
        conditions=conditions,
        next_at=_wake_text(decision.wake, row, now_ms),
        history=_history(inspector, row, key),
    )


def _coldness(key: PartitionKey, view: View, resolved: Resolved, now_ms: int) -> list[Condition]:
    state, around = view.partitions[key], view.around
    fields = {
        "window": "cold.writer_silent_for",
        "boundary": "cold.after",
        "quiet": "cold.quiet_for",
        "lateness": "cold.late_write_risk",
    }
    found = findings(key, state, around, resolved.policy.cold, now_ms, job_bytes(resolved.policy, view.facts))
    return [
        Condition(
            one.rule,
            Verdict.HOT if one.is_hot else COLD,
            not one.is_hot,
            one.why,
            _origin(resolved, one.option or fields.get(one.rule, "")),
        )
        for one in found
    ]


def _minor(key: PartitionKey, view: View, resolved: Resolved, now_ms: int) -> list[Condition]:
    """Whether its old files may be merged while it is hot, where the policy speaks of that."""
    state, around = view.partitions[key], view.around
    hot = first_hot(key, state, around, resolved.policy.cold, now_ms, job_bytes(resolved.policy, view.facts))
    found = old_files(state, around.state, resolved.policy, hot, now_ms)
    if found is None:
        return []
    if isinstance(found, Old):
        return [Condition("minor", BESIDE, True, found.proof, _origin(resolved, OPTION))]
    return [Condition("minor", Verdict.HOT, False, found.why, _origin(resolved, found.option or OPTION))]


def _owed(key: PartitionKey, view: View, resolved: Resolved, now_ms: int) -> Debt:
    return owed_now(key, view.partitions[key], resolved.policy, view, now_ms)


def _debt(key: PartitionKey, view: View, resolved: Resolved, now_ms: int) -> list[Condition]:
    return [
        Condition(
            # Each trigger by the name of its option: that is what a person would change.
            one.option.removeprefix("compact."),
            Verdict.DUE if one.score >= 1 else Verdict.CLEAN,
            one.score >= 1,
            f"{one.score:.2f} of 1: {one.why}",
            _origin(resolved, one.option),
        )
        for one in _owed(key, view, resolved, now_ms).triggers
    ]


def rest_conditions(
    key: PartitionKey, view: View, decision: Decision, resolved: Resolved, now_ms: int
) -> list[Condition]:
    """Whether its last job was not long ago, where that is so."""
    is_hot, score = decision.verdict is Verdict.HOT, decision.score
    partition = view.partitions[key]
    until_ms = rests_until(key, partition, view.around, resolved.policy, now_ms, is_hot=is_hot)
    if until_ms is None:
        return []
    merges = _owed(key, view, resolved, now_ms).merge(None) is not None
    is_over = score >= REST_SCORE or (merges and not is_hot)
    word = Verdict.DUE if is_over else Verdict.RESTING
    origin = _origin(resolved, "compact.rest")
    return [Condition("rest", word, is_over, rest_text(until_ms, score), origin)]


def _windows(resolved: Resolved, now_ms: int) -> list[Condition]:
    """How the windows for compactions stand, where the policy has any."""
    pace = Pace.at(resolved.policy, now_ms)
    windows = pace.windows.get(Action.COMPACT)
    if windows is None:
        return []
    origin = _origin(resolved, "work.windows")
    if windows.closes_at_ms is not None:
        closes = moment_text(windows.closes_at_ms, now_ms, pace.tz)
        return [Condition("work.windows", OPEN, True, f"a window is open until {closes}", origin)]
    why, _ = pace.waits(Action.COMPACT, now_ms) or ("", NEVER)
    return [Condition("work.windows", Verdict.WAITING, False, why, origin)]


def _held_by_table(view: View, resolved: Resolved, now_ms: int) -> list[Condition]:
    """What of the table as a whole keeps its partitions waiting, where there is such a thing."""
    expire = "expire.max_metadata_size"
    found = (
        ("main", not_published(view, now_ms), ""),
        (expire, crowded(view, resolved.policy, now_ms), _origin(resolved, expire)),
    )
    return [
        Condition(name, Verdict.WAITING, False, said[0], origin)
        for name, said, origin in found
        if said is not None
    ]


def _turn(inspector: Inspector, planned: Plan, key: PartitionKey, now_ms: int) -> list[Condition]:
    """Since when it waits, and who comes before it, where it is due."""
    due = [one for one in planned.requests if one.decision.partition is not None]
    mine = next((one for one in due if one.decision.partition == key), None)
    if mine is None:
        return []
    # On each executor a table has its turns apart.
    place = [one for one in due if one.executor is mine.executor].index(mine)
    since_ms, others = mine.due_since_ms, inspector.others_due(planned.table.uuid)
    waits = (
        "due just now"
        if since_ms is None
        else f"due since {clock_text(since_ms)}, for {span_text(max(now_ms - since_ms, 0))}"
    )
    comes = f"{counted(place, 'partition')} of this table before it" if place else "the first of its table"
    wait = f"; {counted(others, 'other table')} {'waits' if others == 1 else 'wait'} too" if others else ""
    where = "; it runs on Spark" if mine.executor is ExecutorName.SPARK else ""
    return [Condition("turn", Verdict.DUE, True, f"{waits}; {comes}{wait}{where}", "")]


def _of_table(
    inspector: Inspector, row: TableRow, view: View, planned: Plan, resolved: Resolved, now_ms: int
) -> Explanation:
    expire = resolved.policy.expire
    ripe_ms = ripe_on_main_ms(view.snapshots or (), expire, now_ms)[:1]
    age = "no snapshot"
    if ripe_ms == [FOREVER_MS]:
        age = "the oldest is the newest"
    elif ripe_ms:
        age = f"the oldest was the newest until {span_text(now_ms - ripe_ms[0] + expire.keep_for)} ago"
    is_old = bool(ripe_ms) and ripe_ms[0] <= now_ms
    are_many = view.facts.snapshots > expire.keep_last
    conditions = (
        Condition(
            "age",
            MAY_GO if is_old else KEPT,
            is_old,
            f"{age}, kept for {span_text(expire.keep_for)}",
            _origin(resolved, "expire.keep_for"),
        ),
        Condition(
            "count",
            MAY_GO if are_many else KEPT,
            are_many,
            f"{view.facts.snapshots} snapshots, the last {expire.keep_last} stay",
            _origin(resolved, "expire.keep_last"),
        ),
        *(
            Condition(
                str(one.action).replace("_", " "),
                one.verdict,
                one.score >= 1,
                f"{one.score:.2f} of 1: {one.why}",
                _origin(resolved, one.option),
            )
            for one in planned.of_table
        ),
        *_files(inspector, row, resolved, now_ms),
        *_rewriters(view),
    )
    first = max(planned.of_table, key=lambda one: (one.verdict is Verdict.DUE, one.action is Action.EXPIRE))
    return Explanation(
        table=row.state.table.name,
        subject=f"partitions: {tally_text(planned)}",
        verdict=first.verdict,
        score=first.score,
        why=first.why,
        conditions=conditions,
        next_at=_wake_text(first.wake, row, now_ms),
        history=_history(inspector, row, None),
    )


def _rewriters(view: View) -> list[Condition]:
    """Who else rewrites the table's files, where somebody does."""
    if (theirs := view.facts.rewritten_in) is None:
        return []
    who = view.facts.rewritten_by or "another writer"
    text = f"{who} rewrites its files too (snapshot {theirs}): who of the two commits last may have worked in vain"
    return [Condition("rewriters", BESIDE, True, text, "")]


def _files(inspector: Inspector, row: TableRow, resolved: Resolved, now_ms: int) -> list[Condition]:
    """Files that should be deleted by now, and why they are not."""
    why = inspector.waiting_files(row.state.table.uuid, now_ms)
    origin = _origin(resolved, "expire.delete_after")
    found = [] if why is None else [Condition("delete files", Verdict.WAITING, False, why, origin)]
    if (left := inspector.unwatched(row.state.table.uuid)) is not None:
        found.append(Condition("quarantine", Verdict.OFF, False, left, _origin(resolved, "orphans.mode")))
    return found


def _history(inspector: Inspector, row: TableRow, key: PartitionKey | None) -> tuple[str, ...]:
    action = Action.EXPIRE if key is None else Action.COMPACT
    operations = [
        operation
        for operation in inspector.ledger.operations(row.state.table.uuid)
        if operation.action is action and operation.partition == key
    ]
    return tuple(
        f"{clock_text(op.started_at_ms)} {op.action} {op.state}"
        f"{': ' + op.outcome_why if op.outcome_why else ''}"
        f"{f' ({op.files_before} → {op.files_after} files)' if key and op.state == 'done' else ''}"
        for op in operations[:HISTORY]
    )


def _origin(resolved: Resolved, name: str) -> str:
    return resolved.origins.get(name, "built-in") if name else ""


def _wake_text(wake: Wake, row: TableRow, now_ms: int) -> str:
    """When the verdict could change by itself, for people."""
    parts = []
    if wake.at_ms is not None:
        parts.append(f"in {span_text(max(wake.at_ms - now_ms, 0))}")
    if wake.boundary_ms is not None:
        parts.append(f"when the stream reaches {clock_text(wake.boundary_ms)}")
    if wake.commits is not None:
        parts.append(f"after {max(wake.commits - row.state.foreign_commits, 0)} more commits")
    return ", or ".join(parts)
