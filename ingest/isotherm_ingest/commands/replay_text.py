"""What came of a replay, for people, in eighty columns, and for programs, as JSON."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from isotherm.runtime import clock
from isotherm.runtime.text import counted
from isotherm_ingest.commands.terminal import grid, out, told
from isotherm_ingest.replay.choosing import Fate
from isotherm_ingest.replay.outcome import Replayed
from isotherm_ingest.span import seconds

WORDS = {
    Fate.WRITTEN: ("written", "green"),
    Fate.THERE: ("there", ""),
    Fate.SUPERSEDED: ("superseded", ""),
    Fate.BAD: ("still bad", "red"),
    Fate.UNDECIDED: ("not decidable", "red"),
    Fate.WAITS: ("not read yet", ""),
    Fate.OTHER: ("not this table", "dim"),
}
MOST_WHYS = 12
"""Lines of each outcome: what is wrong with a message may repeat what it says."""
MOST_LETTERS = 1_000
"""Of an answer as JSON, of those that a person must see to."""


def since_ms(text: str) -> int | None:
    """A moment, from a time of UTC or a span before now.

    Raises:
        ValueError: it is neither.
    """
    if not text:
        return None
    try:
        return clock.now_ms() - int(1000 * seconds(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time such as 2026-11-30T08:00, and no span such as 90m") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def print_replayed(found: Replayed) -> None:
    """A line for each outcome, reason and why; and a summary."""
    lines = grid("outcome", "letters", "reason", "why", right=("letters",), folded=("reason", "why"))
    for fate in Fate:
        counts = Counter(
            (found.letters[at].reason, why)
            for at, (one, why) in found.told.items()
            if one is fate and at in found.letters
        )
        counts += Counter(
            ("", why) for at, (one, why) in found.told.items() if one is fate and at not in found.letters
        )
        word, style = WORDS[fate]
        for (reason, why), count in counts.most_common(MOST_WHYS):
            lines.add_row(told(word, style), f"{count:,}", told(reason), told(why))
        if rest := sum(sorted(counts.values(), reverse=True)[MOST_WHYS:]):
            lines.add_row(told(word, style), f"{rest:,}", "", told("of other kinds"))
    if lines.row_count:
        out.print(lines)
    out.print(summary(found))


def summary(found: Replayed) -> str:
    """One plain line."""
    counts = Counter(fate for fate, _ in found.told.values())
    letters = counted(len(found.letters), "dead letter")
    if found.is_dry:
        return f"{found.table}: {letters}; {found.to_try:,} would be tried, nothing was written"
    if not found.letters:
        return f"{found.table}: no dead letters"
    left = counts[Fate.BAD] + counts[Fate.UNDECIDED]
    return (
        f"{found.table}: {letters}, {counts[Fate.WRITTEN]:,} written in {counted(found.commits, 'commit')}, "
        f"{left:,} left for a person"
    )


def as_json(found: Replayed) -> dict[str, Any]:
    """The same, for programs."""
    counts = Counter(fate for fate, _ in found.told.values())
    left = [
        {"topic": at[0], "partition": at[1], "offset": at[2], "outcome": fate.value, "why": why}
        for at, (fate, why) in sorted(found.told.items())
        if fate in {Fate.BAD, Fate.UNDECIDED}
    ]
    return {
        "table": found.table,
        "mode": "mirror" if found.is_mirror else "changelog",
        "letters": len(found.letters),
        "to_try": found.to_try,
        "commits": found.commits,
        "outcomes": {fate.value: counts[fate] for fate in Fate},
        "needs_a_person": found.is_open,
        "left": left[:MOST_LETTERS],
    }
