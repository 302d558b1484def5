"""What `isotherm look` has found, as values and in words: for the terminal and for the page."""

from collections.abc import Iterable
from dataclasses import dataclass

from isotherm.commands.plan_lines import Line
from isotherm.core.model.decisions import Verdict
from isotherm.core.planner.examination import Examination, Gain
from isotherm.core.policy.precedence import BUILT_IN
from isotherm.core.units import size_text
from isotherm.runtime.text import counted


@dataclass(frozen=True, slots=True)
class Looked:
    """A table that was examined."""

    table: str
    format_version: int
    examination: Examination
    lines: tuple[Line, ...]
    """What would be done now, and why not the rest, without what is clean; what matters first."""

    @property
    def ails(self) -> bool:
        """Whether something could be gained, or would be by a version that can rewrite it, or is due of the whole table."""
        is_due = any(line.verdict is Verdict.DUE for line in self.lines)
        return is_due or bool(self.examination.suffers or self.examination.verdicts.get(Verdict.UNSUPPORTED))


@dataclass(frozen=True, slots=True)
class Unread:
    """A table, or a namespace, that could not be read."""

    name: str
    why: str
    is_unknown: bool = False
    """The catalog does not have it."""

    def __str__(self) -> str:
        return self.why if self.name in self.why else f"{self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Lake:
    """What was found, the worst first."""

    catalog: str
    policy: str
    """The file by which the tables were judged, or that it was the built-in default."""
    at_ms: int
    tables: tuple[Looked, ...]
    unread: tuple[Unread, ...]
    is_named: bool = False
    """Whether its tables were asked for by name."""


def notes(lake: Lake) -> Iterable[str]:
    """What the answer rests on, in words."""
    yield f"Judged by {'the built-in default policy' if lake.policy == BUILT_IN else lake.policy}. Nothing was changed."
    yield (
        "How late rows come, how long writers pause and what they intend, only a daemon learns: "
        "it may leave alone for longer what is due here."
    )


def held(one: Looked) -> Iterable[str]:
    """What a table holds, in words."""
    found = one.examination
    yield f"format {one.format_version}"
    yield counted(found.partitions, "partition")
    mean = f" of {size_text(found.data.bytes / found.data.files)} on average" if found.data.files else ""
    yield counted(found.data.files, "data file") + mean
    if found.deletes.files:
        yield f"{counted(found.deletes.files, 'delete file')} with {counted(found.deletes.rows, 'row')}"
    yield counted(found.manifests, "manifest")
    yield f"metadata.json {size_text(found.metadata_bytes)}"


def gains(found: Examination) -> Iterable[str]:
    """What work would gain, and cost, in words."""
    if found.verdicts.get(Verdict.UNSUPPORTED):
        count = found.verdicts[Verdict.UNSUPPORTED]
        yield f"{counted(count, 'partition')} owe something that this version cannot rewrite; below is why"
    has_gain = found.at_once.work.jobs or found.in_the_end.work.jobs
    if has_gain:
        yield f"at once: {_gain_text(found.at_once)}"
    elif not found.never_cold:
        yield f"nothing to gain by compaction: a full scan opens {counted(found.files, 'file')}, and would go on to do so"
    if has_gain and found.in_the_end.work != found.at_once.work:
        yield f"once its partitions are cold: {_gain_text(found.in_the_end)}"
    if found.never_cold:
        yield (
            f"left as it is: {counted(found.never_cold, 'partition')} that may never be cold (no time, and written for a "
            "day). Where writers only append, compact.minor_after in a policy has old files merged"
        )


def _gain_text(gain: Gain) -> str:
    if not gain.work.jobs:
        return "no compaction is due"
    jobs, read = counted(gain.work.jobs, "job"), size_text(gain.work.bytes)
    return f"{jobs} would read {read}; then a full scan opens {counted(gain.files, 'file')}"
