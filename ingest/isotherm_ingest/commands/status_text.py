"""A status for people, in eighty columns, and for programs, as JSON."""

from typing import Any

from rich.table import Table

from isotherm.runtime.text import counted
from isotherm_ingest.commands.standing import Standing, span
from isotherm_ingest.commands.status import Status
from isotherm_ingest.commands.terminal import grid, out, told

STYLES = {"fine": "green", "waits": "", "behind": "yellow", "unclaimed": "dim"}
"""Any other state is one that a person must see."""


def print_status(found: Status) -> None:
    """A line for each table, worst first; what a person must look at; and a summary."""
    if found.tables:
        out.print(_tables(found))
    for one in found.new_topics:
        letters = f", {counted(sum(one.dead_letters.values()), 'dead letter')}" if one.dead_letters else ""
        out.print(told(f"{one.topic} has no table yet: {one.waiting:,} wait{letters}"))
    for subject, why in found.troubles:
        out.print(told(f"{subject}: {why}", "red"))
    out.print(summary(found))


def _tables(found: Status) -> Table:
    lines = grid(
        "table", "mode", "waiting", "committed", "used", "letters", "state",
        right=("waiting", "committed", "used", "letters"), folded=("table",),
    )  # fmt: skip
    for one in found.tables:
        age = "-" if one.committed_ms is None else f"{span(found.asked_ms - one.committed_ms)} ago"
        letters = sum(one.dead_letters.values())
        lines.add_row(
            told(one.table),
            told(one.mode),
            f"{sum(one.waiting.values()):,}",
            age,
            f"{one.retention_used:.0%}",
            f"{letters:,}",
            told(_state(one), STYLES.get(one.state, "red")),
        )
        for topic, waiting in one.waiting.items() if len(one.waiting) > 1 else ():
            if waiting:
                lines.add_row(told(f"  {topic}", "dim"), "", f"{waiting:,}")
    return lines


def _state(one: Standing) -> str:
    return one.state if one.unannounced == 0 else f"{one.state}, {one.unannounced:,} unannounced"


def summary(found: Status) -> str:
    """One plain line."""
    bad = len({subject for subject, _ in found.troubles})
    waiting = sum(sum(one.waiting.values()) for one in found.tables)
    waiting += sum(one.waiting for one in found.new_topics)
    letters, look = len(found.letters.letters), found.letters
    more = "" if look.looked_at >= look.there else f" among the {look.looked_at:,} newest of {look.there:,}"
    said = "all is well" if not bad else f"{bad} {'needs' if bad == 1 else 'need'} a person"
    return (
        f"{counted(len(found.tables), 'table')}: {said}; {counted(waiting, 'message')} wait, "
        f"{counted(letters, 'dead letter')}{more}"
    )


def as_json(found: Status) -> dict[str, Any]:
    """The same, for programs."""
    return {
        "pipeline": found.pipeline,
        "asked_ms": found.asked_ms,
        "needs_a_person": bool(found.troubles),
        "tables": [_as_json(one, found.asked_ms) for one in found.tables],
        "topics_without_table": [
            {"topic": one.topic, "waiting": one.waiting, "dead_letters": dict(one.dead_letters)}
            for one in found.new_topics
        ],
        "dead_letters": {
            "of_pipeline": len(found.letters.letters),
            "looked_at": found.letters.looked_at,
            "in_topic": found.letters.there,
        },
        "troubles": [{"of": subject, "why": why} for subject, why in found.troubles],
    }


def _as_json(one: Standing, asked_ms: int) -> dict[str, Any]:
    return {
        "table": one.table,
        "mode": one.mode,
        "state": one.state,
        "waiting": dict(one.waiting),
        "passed": one.passed,
        "retention_used": round(one.retention_used, 4),
        "committed_ms": one.committed_ms,
        "age_s": None if one.committed_ms is None else (asked_ms - one.committed_ms) // 1000,
        "holes": list(one.holes),
        "unannounced": one.unannounced,
        "dead_letters": dict(one.dead_letters),
        "troubles": list(one.troubles),
    }
