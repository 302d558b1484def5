"""The policy of a table: what should be maintained, never how. Validated values with units, defaults and floors.

A value of `Policy` is complete: every field has a value. Which of the files and table properties gave it is the
business of `precedence`. Some fields have a *floor*: below it, rows or history may be lost to a slip of the pen, so
a file that means it must name the field in its `override`.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from isotherm.core.model.jobs import Action, ExecutorName, OutputSpec
from isotherm.core.policy.cold_after import LEARNED, After
from isotherm.core.policy.learned_counts import MaxPositionDeletes, MinFiles
from isotherm.core.policy.sort_text import TABLE, SortText
from isotherm.core.policy.windows import checked_cron
from isotherm.core.policy.zone_names import UTC_NAME, checked_zone
from isotherm.core.units import MAX_COUNT, MAX_SPAN_MS, Count, Size, Span, span_within
from isotherm.runtime.strict_model import StrictModel


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that a file may say without naming the field in its `override`."""

    least: int
    why: str
    """What could happen below it."""


@dataclass(frozen=True, slots=True)
class TableProperty:
    """Iceberg's own table property that says the same."""

    name: str


Cron = Annotated[
    str,
    AfterValidator(checked_cron),
    WithJsonSchema({"type": "string", "pattern": r"^\s*\S+(\s+\S+){4}\s*$"}),
]
"""A cron expression of five fields, in the policy's time zone."""

Zone = Annotated[
    str,
    AfterValidator(checked_zone),
    WithJsonSchema({"type": "string", "pattern": r"^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"}),
]
"""A time zone by its IANA name."""


def _lasting(span_ms: int) -> int:
    if span_ms < 60_000:
        raise ValueError("a window that is never open; let it last for a minute at least: `1m`")
    return span_ms


def _some(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    if not actions:
        raise ValueError("a window for no action; name one, such as `compact`")
    return actions


Actions = Annotated[tuple[Action, ...], AfterValidator(_some), Field(json_schema_extra={"minItems": 1})]


class Epoch(StrEnum):
    """How a partition field that is no time for Iceberg holds one."""

    SECONDS = "s"
    """Whole seconds since 1970, UTC."""
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    DAYS = "d"
    """Days since 1970."""
    YYYYMMDD = "yyyymmdd"
    """`20261121`, as a number or as text."""
    ISO_DATE = "yyyy-mm-dd"
    """`2026-11-21`, as text."""


class Cold(StrictModel):
    """When a partition counts as left behind by the stream. All conditions must agree."""

    after: After = LEARNED
    """How far the event time that the stream has reached must lie behind the partition's end: a span (`3h`), intervals
    of the partition (`2`: two hours of an hourly one), or `learned`. That is as long as 49 of 50 files of this table
    need, as its own commits show, and two intervals at most, or until enough of them were seen."""
    after_at_most: Span = 7 * 86_400_000
    """Caps intervals in `after` as a span of event time, so that monthly partitions do not wait for two months."""
    quiet_for: Span = 15 * 60_000
    """Nobody wrote into the partition for this long. Longer where writers pause in the middle of their work."""
    quiet_commits: Count = 10
    """Nor within the last so many commits of the table. The main rule for buckets. It does not count where each pause of a
    partition's writers that is known was longer than `quiet_for` (and five minutes): a batch may write all partitions."""
    quiet_at_most: Span = 3_600_000
    """Caps `quiet_commits`: after this long, the number of commits does not matter any more."""
    silent_for: Span = 86_400_000
    """Nobody wrote into the partition for this long: then `after` does not matter any more. So the last partitions of
    a stream that has ended are compacted too, and a month soon after its end. Where its writers come in visits,
    `quiet_for` is enough, or twice their longest pause within a visit (an eighth of this at most): a batch each night
    writes the present month for long, and a job begins early in the pause between two. They do where they were away
    for longer than a twelfth of this three times, and no visit since was longer than twice the absence before it."""
    late_write_risk: float = Field(0.05, gt=0, le=1)
    """Cold only where the table's own history says that a write into a partition of that age, before a job would
    end, is less likely than this. 1 switches the rule off."""
    writer_silent_for: Span = 3_600_000
    """A writer that has said nothing for this long is retired: its last open window binds nobody any more."""
    epochs: dict[str, Epoch] = Field(default_factory=dict)
    """Partition fields (of `identity` or `truncate`) that hold a time as a number or as text, and how:
    `{event_day: yyyymmdd}`."""

    def least_after_ms(self, length_ms: int) -> int:
        """What `after` means at least for a partition of this length, in milliseconds, whatever is learned."""
        match self.after:
            case timedelta():
                return self.after // timedelta(milliseconds=1)
            case str():
                return 0
            case intervals:
                return self.intervals_ms(intervals, length_ms)

    def intervals_ms(self, intervals: float, length_ms: int) -> int:
        """So many intervals, capped by `after_at_most`."""
        return int(min(intervals * length_ms, self.after_at_most))


class Compact(StrictModel):
    """When small files and delete files are rewritten."""

    enabled: bool = True
    """Whether partitions of this table are compacted."""
    target_file_size: Annotated[
        Size,
        Field(ge=1024),
        Floor(8 * 1024**2, "compaction would make the small files that it is there to remove"),
        TableProperty("write.target-file-size-bytes"),
    ] = 128 * 1024**2
    """Size that new files should have. Larger for tables that are read whole, smaller for selective reads."""
    sort: SortText = TABLE
    """Order of the rows in new files. `table`: as the table's sort order says (`ALTER TABLE … WRITE ORDERED BY`), where it has
    one. Columns, as in `region, at DESC NULLS LAST`: by these, whatever the table says. `zorder(region, at)`: along a curve
    through all of them (Hilbert's), so that files are narrow in each: for readers who filter by one or another. `none`: as they lie in the
    files that are read. A large job takes three to four times as long when it sorts, and disk for what does not fit into
    memory. Nothing is rewritten only to be sorted."""
    min_files: MinFiles = LEARNED
    """Due at this many data files below three quarters of the target in one partition. A file counts once all smaller
    ones together have its size: what was compacted is not rewritten for a handful of crumbs. `learned` are 20, and 6 of
    rows that came late: appended to a partition of time that was compacted before, or has files that are not small, and
    that holds no delete file; and 6 in a partition of time alone to which nobody wrote for seven days. (With a bucket or a tenant beside
    the time an interval has many partitions, and each would be a commit.) In any case a job must
    leave a file less for each one of the target size that it reads. A number holds as it stands."""
    fill_files: Annotated[Count, Field(ge=2)] = 5
    """Due also at this many small files, where together they fill one of the target size, and a job leaves a file less for
    each one of that size that it reads."""
    rest: Span = 86_400_000
    """A partition that is written again after a job of it rests for so long, unless it owes twenty times as much as is
    due: who is written on and on is not rewritten on and on. Meanwhile position-delete files are merged, once they are due
    by themselves. After a job in vain, because a writer came back, it waits a twenty-fourth of this, then twice as long, up
    to all of it. Shorter where partitions live for hours; a few hours below a day where windows are of the night."""
    minor_after: Span | None = None
    """Minor compaction: after so long in which everybody else only appended to the table, small files are merged in
    partitions that are still written too. Files younger than `cold.quiet_for` (an hour at most) stay as they are, and no
    append fails because of it. For partitions that are written for a day and longer, of a writer that never updates or
    deletes; a week shows weekly jobs. Who deletes by hand pauses the table first, or may have to try again and again."""
    ask_writer: Annotated[Span, span_within(30_000, 600_000)] | None = None
    """The longest window, from `30s` to `10m`, for which the writers of this table may be asked. For partitions that are written
    on and on, as a mirror's youngest days: what is hot and has been written for as long as `rest`, or owes twenty times as much as
    is due, is compacted while its writers commit nothing to the table. Only where all of them grant windows, as Isotherm's ingest
    does: where somebody else wrote within `cold.silent_for`, nobody is asked. Rows of this table come later by so much at most, a
    tenth of the time at most. 60s is enough for a gigabyte."""
    max_delete_ratio: float = Field(0.33, gt=0, le=MAX_COUNT)
    """Due also when rows in position deletes and deletion vectors reach this part of the partition's rows: then they are
    applied, but for those of data files of which their own delete files name less than half of it. Lower where a table is
    read much oftener than it is updated."""
    max_position_deletes: MaxPositionDeletes = LEARNED
    """Due also at this many position-delete files. Small ones are merged, or applied where their data is small too.
    `learned` are 200, and 20 where they came without rows (there are twice as many as small data files), are more than all
    data files (else each may name one of them, as Spark's do, and its readers open one), and merging leaves half as many
    at the most; and 6 in a partition of time alone to which nobody wrote for seven days, where they are more than its data files
    once the small ones are one. A number holds as it stands."""
    max_equality_deletes: Annotated[Count, Field(ge=1)] = 10
    """Due also at this many equality-delete files, each joined with older rows by readers: applied, or made positions."""
    output_spec: OutputSpec = OutputSpec.OWN
    """The partition spec of new files. `own`: that of the files that are read. `current`: what lies in an older spec is
    written in the table's current one, however few its files are, once its partition and all into which its rows go are cold;
    where the current spec is a single field of time, and no rows of the table are replaced by key. For tables whose spec has
    changed, so that readers prune old data too."""
    executor: ExecutorName | None = None
    """Where jobs of this table run. By default their size says it (`executors.spark.from_bytes`). Of a
    daemon without a cluster all run on its own machine."""
    max_deletion_vectors: Annotated[Count, Field(ge=1)] | None = None
    """Due also at this many deletion vectors. A data file has one at the most, which is one more request for its readers, and
    to take it away the file is rewritten. So by default only their rows count: `max_delete_ratio`."""


class Expire(StrictModel):
    """Which snapshots go, and when the files that only they needed follow."""

    enabled: bool = True
    """Whether snapshots of this table are expired. Branches and tags that are past their own age (`max-ref-age-ms`, or the
    table's `history.expire.max-ref-age-ms`) are dropped with them, as by Iceberg's own expiry. Old metadata.json files
    are removed all the same: `metadata.enabled`."""
    keep_for: Annotated[
        Span,
        Floor(10 * 60_000, "a query of some minutes would lose the snapshot that it reads"),
        TableProperty("history.expire.max-snapshot-age-ms"),
    ] = 7 * 86_400_000
    """A snapshot stays for so long after the next one came, or a branch was published in its place: until then it was the
    newest, and queries began with it. Longer than the longest query, the longest time travel that is needed, and the longest upsert or MERGE of writers that announce
    no intent (it is validated from the snapshot at which it began). What a writer with an open intent began on stays, unless
    metadata.json is larger than `max_metadata_size`.
    What no branch or tag reaches stays for as long after it was first seen so, or was left last, and what was staged, and `main` from there on, for a day at least."""
    keep_last: Annotated[
        Count,
        Field(ge=1),
        Floor(5, "after a stream has stood still, a rollback would have nowhere to go"),
        TableProperty("history.expire.min-snapshots-to-keep"),
    ] = 20
    """So many of the newest stay, however old they are."""
    at_once: Annotated[Count, Field(ge=1)] = 10
    """Due when so many snapshots may go, and a twentieth of all that there are; one commit takes two thousand at most."""
    every: Span = 86_400_000
    """But not sooner than this after the last expiry: each is a commit that writers may have to wait for. Where 2,000 may
    go, as many as one commit takes, it is due at once."""
    at_latest: Span = 86_400_000
    """Due also when the oldest snapshot could have gone this long ago, however few may go."""
    max_reader_lag: Span = 14 * 86_400_000
    """A reader that says up to where it has read (`isotherm reader`) keeps that snapshot and all later ones, but for no longer
    than this after something came that it has not read (rewrites do not count): then it is told (an alert), and what it has
    not read may go. 0 keeps nothing for readers."""
    max_metadata_size: Annotated[Size, Field(ge=1024)] = 32 * 1024**2
    """Due also when metadata.json is larger than this and a quarter of the snapshots may go, if these are a sixteenth of
    its bytes: each commit writes it. Where most of its snapshots are Isotherm's own, as with a backlog of many small
    partitions, nothing is compacted from half of this on, until some are expired."""
    delete_after: Annotated[
        Span, Floor(10 * 60_000, "a query that began before the expiry would lose its files")
    ] = 3_600_000
    """Files of expired snapshots are deleted this long after the expiry: the grace of queries that still run."""
    clean_expired_metadata: bool = False
    """Whether schemas and partition specs that nothing uses any more are removed after an expiry. In use is what a snapshot
    names, on any branch or staged, and what one of its manifests has. The highest id of each stays, and of each column the
    newest schema that has it; so does what a writer may hold who began within `keep_for`. For tables whose metadata.json
    is mostly old schemas. Each writer must commit rows within `keep_for`, or load the table again for each commit. One
    that still holds an older spec (Flink holds that of its start) fails, or writes what nobody can read."""


class Manifests(StrictModel):
    """When a table's small manifests are rewritten: neighbours by partition become one of 8 MiB, so that a reader opens few.
    Data and delete files stay as they are, so it is done in hot partitions too. A compaction regroups the manifests
    that it has to write by itself.
    """

    enabled: bool = True
    """Whether manifests of this table are rewritten."""
    min_count: Annotated[Count, Field(ge=2)] = 100
    """Never due with fewer than so many more manifests than would do."""
    max_per_partition: float = Field(4, gt=0, le=MAX_COUNT)
    """Due when there are this many manifests to a partition, on the average."""


class Metadata(StrictModel):
    """When old metadata.json files are removed: those that the newest one does not name any more."""

    enabled: bool = True
    """Whether Isotherm does it, where the table does not do it itself (write.metadata.delete-after-commit.enabled)."""
    keep_last: Annotated[
        Count,
        Field(ge=1),
        Floor(5, "after a bad commit there would be no way back"),
        TableProperty("write.metadata.previous-versions-max"),
    ] = 100
    """So many of the old ones stay: the way back after a bad commit."""
    at_once: Annotated[Count, Field(ge=1)] = 100
    """Due when so many may go, once a day; at ten times as many, once an hour."""
    older_than: Annotated[Span, Floor(86_400_000, "readers that are pointed at one would lose it")] = (
        7 * 86_400_000
    )
    """Younger ones stay. No shorter than the catalog's database could be restored from a backup, which names the versions of
    that day; longer where a reader is pointed at a file of metadata, and goes on to the next one later. Where a second
    catalog has an entry of the table, say `enabled: false`."""


class Mode(StrEnum):
    """What becomes of orphans."""

    OFF = "off"
    REPORT = "report"
    QUARANTINE = "quarantine"
    APPLY = "apply"

    @property
    def takes_away(self) -> bool:
        """Whether orphans leave their place, at once for good or into a quarantine."""
        return self in {Mode.QUARANTINE, Mode.APPLY}


class Orphans(StrictModel):
    """Files in the table's own folders that no snapshot reaches, but hidden ones and those whose name it has elsewhere."""

    mode: Mode = Mode.REPORT
    """`off`, `report` (count them, delete nothing), `quarantine` (move them to `_isotherm_quarantine/` in the table's location,
    and delete them after `keep_for`), or `apply` (delete them). Say `quarantine` where readers may know files that Iceberg
    does not: it takes the same proof as `apply`, a copy of each file in an object store, and its room for `keep_for`."""
    keep_for: Span = 14 * 86_400_000
    """Of `quarantine`: for so long a file can be put back (`isotherm orphans TABLE --restore`). Longer than the rarest reader
    takes to come by. A longer time counts at once, a shorter one for what comes later."""
    older_than: Annotated[
        Span, Floor(86_400_000, "files that a slow writer has yet to commit would be deleted")
    ] = 3 * 86_400_000
    """Younger ones stay: a writer may be about to commit them. Longer than any writer keeps files that it has not committed:
    a long job, a connector that is down, Flink's savepoints."""
    every: Annotated[Span, span_within(60_000, MAX_SPAN_MS)] = 7 * 86_400_000
    """Due when nobody looked for this long: `data/` and `metadata/` are listed."""
    max_share: float = Field(0.2, gt=0, le=1)
    """If they are more than this part of all files there, none goes: a person must look. A hundred and fewer may be half."""


class Window(StrictModel):
    """A time in which work may begin."""

    cron: Cron
    """When it opens, by the clocks of `work.tz`: minute, hour, day of month, month, day of week."""
    lasts: Annotated[Span, AfterValidator(_lasting)]
    """How long it stays open: time that passes, also while clocks are changed."""
    do: Actions = ()
    """What it is for: `compact`, `expire`, `rewrite_manifests`, `trim_metadata`, `remove_orphans`. A window without it is
    for whatever no other window names."""


class Schedule(Window):
    """A time in which less debt than usual is enough."""

    name: str = ""
    """What plans call it: `nightly`."""
    do: Actions
    """What it is for: `compact`, `expire`, `rewrite_manifests`, `trim_metadata`, `remove_orphans`. A window without it is
    for whatever no other window names."""
    from_score: float = Field(0.1, gt=0, le=1)
    """Due from this score on, instead of from 1. Where nothing would be gained, nothing is done."""


class Work(StrictModel):
    """When work may be done, and how much of it; isotherm.yaml's budgets hold too, and the tighter wins."""

    priority: int = Field(0, strict=True, ge=-MAX_COUNT, le=MAX_COUNT)
    """Who has waited longest comes first; each step of priority counts as an hour of waiting."""
    jobs_at_once: Count | None = None
    """Compactions of this table at the same time. By default as many as isotherm.yaml allows."""
    bytes_per_hour: Size | None = None
    """What compaction may read of this table in any hour. By default there is no limit."""
    bytes_per_day: Size | None = None
    """What compaction may read of this table in any day. By default there is no limit."""
    tz: Zone = UTC_NAME
    """The time zone by whose clocks windows and schedules open: `Europe/Berlin`."""
    windows: tuple[Window, ...] = ()
    """Work begins only inside one of these; without any, at all times."""
    schedules: tuple[Schedule, ...] = ()
    """Times at which less debt is enough, beside the thresholds, which hold at all times."""

    def windows_of(self, action: Action) -> tuple[Window, ...]:
        """The windows in which an action may begin: those that name it, or else those that name none."""
        own = tuple(window for window in self.windows if action in window.do)
        return own or tuple(window for window in self.windows if not window.do)


class Sections(StrictModel):
    """What a policy has rules for."""

    cold: Cold = Cold()
    compact: Compact = Compact()
    expire: Expire = Expire()
    manifests: Manifests = Manifests()
    metadata: Metadata = Metadata()
    orphans: Orphans = Orphans()
    work: Work = Work()


class Policy(Sections):
    """The whole policy of one table: every field has a value."""

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that change when any value does; it stands in every snapshot of ours."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
