"""`isotherm tables`: every table that the daemon knows in one line, worst first.

From the ledger and the fold, whether the daemon runs or not; where it answers at its port, also which tables are another
daemon's. A thousand tables take a second: no state is read, and no plan is made.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from isotherm.commands.options import Output
from isotherm.commands.running_daemon import Answer, ask_daemon
from isotherm.commands.standing_lines import cut, heading, line_of, name_width, short_span, why_lines
from isotherm.commands.terminal import err, out, plain_errors, print_complaints, print_json
from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.policy.rulebook import NO_MATCH
from isotherm.core.standings import Standing, Word, summary_text, word_of, worst_first
from isotherm.core.units import clock_text, span_text
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import load_config
from isotherm.runtime.text import counted
from isotherm.service.policies.policy_folder import PolicyFolder, in_force
from isotherm.store.fold import Fold, TableLine, Tally
from isotherm.store.folder import FOLD, LEDGER
from isotherm.store.ledger import Ledger

NEXT = 20
"""Characters of what comes next."""
BESIDE = 34 + 2 + NEXT
UNDECIDED = "undecided"
NOTHING = Tally({}, 0.0, 0, None)


def show_tables(config: Path, output: Output) -> None:
    """Every table, worst first, and how many there are of each."""
    with plain_errors():
        loaded = load_config(config)
        fold = Fold(loaded.state.path / FOLD, read_only=True)
        ledger = Ledger(loaded.state.path / LEDGER, read_only=True)
        policies = in_force(loaded.policies, ledger.policies())
        answer = ask_daemon(loaded)
        at_ms = now_ms()
        elsewhere = frozenset(answer.said.get("tables_elsewhere", ()))
        standings = worst_first(standings_of(fold, ledger, policies, elsewhere, at_ms))
        print_complaints(policies.complaints)
        if output is Output.JSON:
            _print_json(standings, elsewhere, answer)
        else:
            _print(standings, at_ms)
            _print_daemon(answer, loaded.kafka.group, at_ms)


def standings_of(
    fold: Fold, ledger: Ledger, policies: PolicyFolder, elsewhere: frozenset[str], at_ms: int
) -> Iterator[Standing]:
    """How each table stands that the stores, or the daemon, know."""
    tallies, troubles = fold.tallies(), fold.troubles()
    holds: dict[str, list[Hold]] = defaultdict(list)
    for hold in ledger.holds():
        holds[hold.uuid].append(hold)
    running = Counter(ledger.open_jobs().values())
    setbacks = {
        uuid: {str(action): one.why for action, one in ledger.setbacks(uuid, at_ms + MAX_AHEAD_MS).items()}
        for uuid in ledger.with_failures()
    }
    lines = fold.lines()
    known = {line.name for line in lines}
    for line in lines:
        held = holds.pop(line.uuid, [])
        if line.name in elsewhere:
            yield Standing(line.name, Word.ELSEWHERE)
        elif not policies.has_policy(line.name):
            why = policies.why_none(line.name)
            yield Standing(
                line.name,
                Word.LEFT_ALONE,
                "" if why == NO_MATCH else why,
                looked_at_ms=line.confirmed_at_ms,
            )
        else:
            trouble = troubles[line.name].text if line.name in troubles else ""
            tally = tallies.get(line.uuid, NOTHING)
            yield _standing(
                line, tally, trouble, held, setbacks.get(line.uuid, {}), running[line.name], at_ms
            )
    for name in sorted(troubles.keys() - known):
        if policies.has_policy(name):
            yield Standing(name, Word.FAILING, troubles[name].text)
    held_elsewhere = {
        hold.name: hold for some in holds.values() for hold in some if _is_of_table(hold, at_ms)
    }
    for name in sorted((elsewhere | held_elsewhere.keys()) - known - troubles.keys() - {""}):
        why = _held_text(held_elsewhere[name]) if name in held_elsewhere else ""
        yield Standing(name, Word.ELSEWHERE, why)


def _is_of_table(hold: Hold, at_ms: int) -> bool:
    return hold.kind in (HoldKind.HALT, HoldKind.PAUSE) and hold.holds(at_ms)


def _held_text(hold: Hold) -> str:
    until = "" if hold.until_ms is None else f" until {clock_text(hold.until_ms)}"
    return f"{'halted' if hold.kind is HoldKind.HALT else 'paused'}{until}: {hold.why}"


def _standing(
    line: TableLine,
    tally: Tally,
    trouble: str,
    holds: Iterable[Hold],
    setbacks: Mapping[str, str],
    running: int,
    at_ms: int,
) -> Standing:
    whole = {hold.kind: hold for hold in holds if _is_of_table(hold, at_ms)}
    quarantined = [hold for hold in holds if hold.kind is HoldKind.QUARANTINE and hold.holds(at_ms)]
    due_actions = [str(one.action) for one in line.of_table if one.verdict is Verdict.DUE]
    waiting = [one for one in line.of_table if one.verdict is Verdict.WAITING]
    failed = len(quarantined) + len(setbacks)
    verdicts = tally.verdicts
    due = verdicts.get(Verdict.DUE, 0)
    scores = [one.score for one in line.of_table if one.verdict not in (Verdict.OFF, Verdict.UNSUPPORTED)]
    word = word_of(
        trouble=bool(trouble),
        halted=HoldKind.HALT in whole,
        paused=HoldKind.PAUSE in whole,
        failed=failed,
        running=running,
        due=due + len(due_actions),
        waiting=verdicts.get(Verdict.WAITING, 0) + len(waiting),
        owes_hot=tally.hot_score >= 1,
        unsupported=verdicts.get(Verdict.UNSUPPORTED, 0),
        is_decided=bool(line.of_table) or any(verdict != UNDECIDED for verdict in verdicts),
    )
    failures = [f"{action}: {why}" for action, why in setbacks.items()]
    failures += [f"{hold.partition}: {hold.why}" for hold in quarantined[:1]]
    whys = [trouble, *map(_held_text, whole.values()), *_failed_text(failures, failed)]
    if word is Word.WAITING and waiting:
        whys.append(waiting[0].why)
    next_what, next_at_ms = _next(due, due_actions, line.wake_at_ms, held=bool(whole))
    return Standing(
        line.name,
        word,
        "; ".join(filter(None, whys)),
        score=round(max([tally.highest_score, *scores]), 3),
        hot_score=round(tally.hot_score, 3),
        partitions=sum(verdicts.values()),
        due=due,
        hot=verdicts.get(Verdict.HOT, 0),
        waiting=verdicts.get(Verdict.WAITING, 0),
        running=running,
        failed=failed,
        due_since_ms=tally.oldest_due_at_ms,
        looked_at_ms=line.confirmed_at_ms,
        next_what=next_what,
        next_at_ms=next_at_ms,
    )


def _failed_text(failures: list[str], failed: int) -> list[str]:
    if not failures:
        return []
    more = f" (and {failed - 1} more)" if failed > 1 else ""
    return [f"jobs fail{more}: {failures[0]}"]


def _next(due: int, actions: list[str], wake_at_ms: int | None, *, held: bool) -> tuple[str, int | None]:
    """What is done next, and when; of what is not due, when a verdict could change by itself."""
    if held:
        return "", None
    if due or actions:
        return ", ".join([*([f"compact {due}"] if due else []), *actions]), None
    return ("look again", wake_at_ms) if wake_at_ms is not None else ("", None)


def _print_json(standings: list[Standing], elsewhere: frozenset[str], answer: Answer) -> None:
    counts = Counter(str(one.word) for one in standings)
    is_known = not answer.why_not
    print_json(
        {
            "daemon": {
                "at": answer.at,
                "answers": is_known,
                "why_not": answer.why_not,
                "round": answer.said.get("round"),
                "events_behind": answer.said.get("events_behind"),
            },
            "summary": dict(counts),
            "tables": [
                asdict(one)
                | {"daemon": "another" if one.table in elsewhere else "this" if is_known else "unknown"}
                for one in standings
            ],
        }
    )


def _print(standings: list[Standing], at_ms: int) -> None:
    names = name_width([one.table for one in standings], out.width, BESIDE)
    lines = [Text(f"{heading(names)}  next", style="bold")]
    for one in standings:
        lines.append(Text.assemble(line_of(one, names, at_ms), f"  {_next_text(one, at_ms)}"))
        lines.extend(why_lines(one, out.width))
    if standings:
        out.print(Text("\n").join(lines), soft_wrap=True)
    out.print(Text(summary_text(standings), style="bold"))


def _next_text(one: Standing, at_ms: int) -> str:
    if one.next_what and one.next_at_ms is None:
        return cut(f"now: {one.next_what}", NEXT)
    if one.next_at_ms is None:
        return ""
    return "now" if one.next_at_ms <= at_ms else f"in {span_text(one.next_at_ms - at_ms)}"


def _print_daemon(answer: Answer, group: str, at_ms: int) -> None:
    if answer.why_not:
        said = f"no daemon answers at {answer.at} ({answer.why_not}): this is how the stores have it"
        err.print(Text(said, style="yellow"))
        return
    done = answer.said.get("round")
    ended = (
        f"its last round ended {short_span(at_ms - done['ended_at_ms'])} ago"
        if done
        else "no round is over yet"
    )
    behind = counted(answer.said["events_behind"], "event")
    here = counted(answer.said["tables_here"], "table")
    out.print(Text(f"the daemon has {here} of group {group}; {ended}, {behind} behind"))
