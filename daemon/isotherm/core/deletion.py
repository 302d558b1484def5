"""Whether a file may be deleted: the one place where that is decided, whoever wants the file gone.

A deletion cannot be taken back, so it is done only after proof, and our own memory is no proof. At once goes only
what no request of this process's life has ever named: the files of a job whose commit was never sent. Everything else
is marked, waits for its grace, and is looked at again before it goes. Then it must be shown, from the table itself,
that no retained snapshot reaches the file. Absence proves nothing: a table that is not found, a snapshot that is not
in the history and a ledger without a line all mean that the file stays.

Values in, values out. Evidence is gathered by `reachability`, files are deleted by `remover`, marks are kept by the
ledger (`deletions` in the service). What was rejected stands in docs/designs/deletion.md.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from isotherm.contract.paths import cluster, deepest, folder, is_plain, normalised
from isotherm.contract.properties import says
from isotherm.core.quarantine import FOLDER, fits, origin_of

LEFTOVER_GRACE_MS = 86_400_000
"""What a failed job wrote waits this long, if a request ever named it. No proxy delays a request for a day."""
FIRST_PAUSE_MS = 60_000
LONGEST_PAUSE_MS = 86_400_000
"""A file that must wait is looked at again after a minute, then after twice as long each time, at most a day."""
VERSION_ENDS = (".metadata.json", ".metadata.json.gz")
METADATA_ENDS = (*VERSION_ENDS, "/version-hint.text")
"""No snapshot reaches these files, and without them there is no table."""
_STANDS_FOR = re.compile(r"\{namespace\}|\{name\}")
_DIVIDES = re.compile(r"[/.{}]")
"""In a level of an identifier: what divides folders, leads up from one, or stands for something."""
_NUMBERED = re.compile(r"v\d+(?:\.gz)?\.metadata\.json(?:\.gz)?")


class Cause(StrEnum):
    """Why somebody wants a file gone."""

    EXPIRED = "expired"
    """Only snapshots that an expiry took have reached it."""
    LEFTOVER = "leftover"
    """A job wrote it, and the table's history does not show the job's commit."""
    OLD_VERSION = "old_version"
    """It is a version of the table's metadata that the newest one does not name any more."""
    ORPHAN = "orphan"
    """It was found in the table's folders, and no snapshot reached it."""
    QUARANTINED = "quarantined"
    """It was an orphan, and was moved into the table's quarantine; its time there is over."""


NOT_OVER = "not_over"
"""The reason for which a file stays whose time in the quarantine is not over."""
NOT_OURS = "not_ours"
"""The reason for which a file stays that is another table's, or may be."""
FOUND = frozenset({Cause.OLD_VERSION, Cause.ORPHAN, Cause.QUARANTINED})
"""What was found by listing the table's folders. Nothing of ours ever knew these files: so they go by their names too."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a table's history had been looked at when something was marked."""

    snapshot_id: int
    """The youngest snapshot that stayed. While the table still has it, its history goes on from there: after a
    restore from an older version it has not, and sequence numbers are used a second time."""
    sequence_number: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A file that may go when its grace is over, if it can be shown then that nothing needs it."""

    path: str
    job_id: str
    cause: Cause
    seen: Seen | None
    """When it was marked, no snapshot up to this one reached it, but for those that the expiry took. None where nobody
    has looked, or where the table's format has no sequence numbers."""
    looks: int = 0
    """How often it had to wait already."""


class Finding(StrEnum):
    """What becomes of a marked file."""

    GO = "go"
    WAIT = "wait"
    """Look again later."""
    KEEP = "keep"
    """It is not ours to delete. If it is in nobody's way but storage's, orphan removal will find it."""
    RESTORE = "restore"
    """It was moved into the quarantine, and is needed where it was."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a marked file, and why."""

    finding: Finding
    reason: str
    """One word of a closed list, for metrics: `unreached`, or what stands against it."""
    why: str


GO = Verdict(Finding.GO, "unreached", "no retained snapshot reaches it")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the table itself shows, read after the grace."""

    gc_enabled: bool
    """The table property `gc.enabled`: where it is false, the files may belong to another table."""
    last_sequence_number: int | None
    """None where its format has none."""
    seen_through: int = field(kw_only=True, default=0)
    """The highest sequence number that the table was ever seen with. One with a lower one is an older version, as a
    replica that lags shows it, and says nothing of what came since."""
    snapshot_ids: Collection[int]
    """Every snapshot in the metadata, on whichever branch."""
    reached: Collection[str]
    """Of the marked files, normalised, those that a retained snapshot or statistics file reaches."""
    names: Collection[str] = ()
    """The names, without folders, of what was reached of files that were found: an alias of a folder, or a second name
    of a store, would make orphans of all files in it."""
    known_through: int = 0
    """The highest sequence number that the ledger knows of the table. It is held against what was found alone: what an
    expiry left behind carries a number of its own, and goes also after a restore that a person has made."""
    moved_names: Collection[str] = ()
    """Of these names, those of files that the table has in its quarantine itself: somebody has added them there."""
    named_at_origin: Collection[str] = ()
    """Of files in quarantine that have one of those names, the ones that the table names where they were, and not where they
    are: in its quarantine it has another one of that name."""
    sizes: Mapping[str, Collection[int]] = field(default_factory=dict)
    """By place, of files in quarantine that have such a name: the sizes of the files that the table may mean."""
    in_quarantine: Mapping[str, int] = field(default_factory=dict)
    """By place: the sizes of files in quarantine that have such a name."""
    at_origin: Mapping[str, int] = field(default_factory=dict)
    """By the same places: the sizes of the files that lie where these were."""
    elsewhere: Collection[str] = ()
    """Of the same places, those of files that the table does not need where they were: it has its files of that name in
    other places."""
    young: Collection[str] = ()
    """Paths of found files that are not as old, by the store, as the policy wants it now: written again since, or the
    policy has changed. Of files in the quarantine, those that are not there for as long as the policy wants it now."""
    strange: Mapping[str, str] = field(default_factory=dict)
    """By path, of files that were found as old versions: why their text does not show that they are."""
    stays: str = ""
    """Why what is in quarantine goes not for good, whatever its age: it may only be put back."""
    beside: Mapping[Cause, str] = field(default_factory=dict)
    """By cause: why nothing that was found may go, by what else lies in the metadata folder."""


@dataclass(frozen=True, slots=True)
class Own:
    """Whence a folder comes in which files of a table may be deleted."""

    of: str
    """The folder that it belongs to (`paths.folder`): the table's location, or what the operator allows."""
    cluster: str = ""
    """Of HDFS: the cluster that was named with it."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Where the table's files may lie, and those of others."""

    own: Mapping[str, Own] = field(default_factory=dict)
    """The folders in which files of this table may be deleted (`paths.folder`)."""
    others: Collection[str] = ()
    """The folders in which all other known tables write (`paths.folder`)."""
    claims: Collection[str] = ()
    """Folders that a property of another table has laid upon this one's. They keep no file that this table itself once
    named; but what is found in one may be the other table's."""

    @property
    def made(self) -> dict[str, Own]:
        """Of its own folders those that lie in the table's location."""
        return {place: one for place, one in self.own.items() if place != one.of}

    @property
    def quarantine(self) -> dict[str, Own]:
        """The folder of the table's quarantine, in the same location."""
        return {f"{one.of}{FOLDER}/": one for one in self.made.values()}

    def where_it_may_go(self, cause: Cause) -> Mapping[str, Own]:
        """The folders in which a file may be deleted that was marked for this cause.

        Where the operator allows deletions beside the location, other tables may write; what is found there may be theirs.
        """
        if cause is Cause.QUARANTINED:
            return self.quarantine
        return self.made if cause in FOUND else self.own


def own_folders(location: str, also_under: Collection[str], levels: Sequence[str]) -> dict[str, Own]:
    """The folders in which files of a table may be deleted, each with whence it comes.

    The owner of a table chooses its location, at any time, and may choose a folder in which other tables lie. So only
    the two folders count that Iceberg makes by itself, under the location that the table was first seen with;
    everything else is for the operator to allow.

    Args:
        location: the first location that the table was seen with.
        also_under: folders that the operator allows, as `named_folders` takes them.
        levels: of the table's identifier, its own name last.
    """
    home = Own(folder(location), cluster(location))
    named = named_folders(also_under, levels)
    allowed = {folder(one): Own(folder(one), cluster(one)) for one in named}
    return allowed | {f"{home.of}{part}/": home for part in ("data", "metadata")}


def named_folders(folders: Collection[str], levels: Sequence[str]) -> list[str]:
    """Some folders, of which `{namespace}` and `{name}` stand for a table's; those that do not fit the table are left out.

    Whoever may create namespaces chooses these texts. So none may lead to the folder of a table with other levels, as
    the namespace `a/b` does to that of `a.b`, or out of the folder that the operator meant.

    Args:
        folders: what the operator has written.
        levels: of the table's identifier, its own name last.
    """
    fits = len(levels) > 1 and all(level and not _DIVIDES.search(level) for level in levels)
    values = {"{namespace}": "/".join(levels[:-1]), "{name}": levels[-1]} if fits else {}
    return [
        _STANDS_FOR.sub(lambda placeholder: values[placeholder[0]], one)
        for one in folders
        if fits or not _STANDS_FOR.search(one)
    ]


def judge(mark: Mark, expired: Collection[int], evidence: Evidence, neighbours: Neighbours) -> Verdict:
    """What becomes of one marked file.

    Args:
        mark: the file.
        expired: the snapshots that the expiry took which marked it; none for a leftover.
        evidence: what the table shows now.
        neighbours: where other tables lie, and where we may delete.
    """
    if mark.cause is Cause.QUARANTINED and (needed := _needed_again(mark, evidence)) is not None:
        placed = _by_place(mark, neighbours)
        return placed if placed.finding is not Finding.GO else needed
    if not evidence.gc_enabled:
        return _wait("gc_disabled", "the table says gc.enabled=false")
    back = set(expired) & set(evidence.snapshot_ids)
    if back:
        return _wait("snapshot_back", f"snapshot {min(back)} is in the table, though it was expired")
    last, seen = evidence.last_sequence_number, mark.seen
    least = max(evidence.seen_through, 0 if seen is None else seen.sequence_number)
    if last is not None and last < least:
        why = f"the table's last sequence number is {last}, it was {least}"
        return _wait("history_cut", why)
    if normalised(mark.path) in evidence.reached:
        return Verdict(Finding.KEEP, "reached", "a retained snapshot reaches it")
    found = _against_found(mark, evidence) if mark.cause in FOUND else None
    return _by_place(mark, neighbours) if found is None else found


def _against_found(mark: Mark, evidence: Evidence) -> Verdict | None:
    """What the table and the store show against deleting a file that was found by listing."""
    if name_of(mark.path) in evidence.moved_names:
        return Verdict(Finding.KEEP, "reached", "the table names it where it was moved to")
    if name_of(mark.path) in evidence.names and mark.cause is not Cause.QUARANTINED:
        return Verdict(Finding.KEEP, "reached", "the table still names a file of this name")
    if evidence.last_sequence_number is None or mark.seen is None:
        return Verdict(Finding.KEEP, "format_1", "nothing would show that the table's history went back")
    if evidence.last_sequence_number < evidence.known_through:
        why = f"the table's last sequence number is {evidence.last_sequence_number}, it was {evidence.known_through}"
        return _wait("history_cut", why)
    if mark.cause in evidence.beside:
        return _wait("other_history", f"in the metadata folder {evidence.beside[mark.cause]}")
    if mark.path in evidence.young and mark.cause is Cause.QUARANTINED:
        return _wait(NOT_OVER, "it can still be restored: orphans.keep_for is longer by now")
    if mark.cause is Cause.QUARANTINED and evidence.stays:
        return _wait("policy", evidence.stays)
    if mark.path in evidence.young:
        return Verdict(Finding.KEEP, "young", "it is not as old as the policy wants it (any more)")
    if mark.path in evidence.strange:
        return Verdict(Finding.KEEP, NOT_OURS, evidence.strange[mark.path])
    return None


def _needed_again(mark: Mark, evidence: Evidence) -> Verdict | None:
    """What a file in quarantine is to a table that names one so. None where it needs none, or has it where this one was.

    It is put back whatever else stands against a deletion, because that deletes nothing.
    """
    name = name_of(mark.path)
    if name not in evidence.names or mark.path in evidence.elsewhere:
        return None
    if name in evidence.moved_names and mark.path not in evidence.named_at_origin:
        return None
    sizes, needed = evidence.sizes.get(mark.path, ()), "it is needed where it was"
    here, there = evidence.in_quarantine.get(mark.path), evidence.at_origin.get(mark.path)
    if there is not None:
        why = f"{needed}, and another file lies there: of {there} bytes, and the table says {_either(sizes)}"
        return None if fits(there, sizes) else _wait("needed_again", why)
    if here is not None and not fits(here, sizes):
        why = (
            f"a file of this name is needed where it was, of {_either(sizes)} bytes, and this one has {here}"
        )
        return _wait("needed_again", why)
    return Verdict(Finding.RESTORE, "needed_again", "the table names a file of this name again")


def _either(sizes: Collection[int]) -> str:
    return " or ".join(str(one) for one in sorted(sizes)[:3])


def _by_place(mark: Mark, neighbours: Neighbours) -> Verdict:
    """What becomes of a file that nothing reaches, by its name and by where it lies."""
    if not is_plain(mark.path):
        return Verdict(Finding.KEEP, "spelling", "programs may take its name for that of another file")
    if mark.path.endswith(METADATA_ENDS) and not (mark.cause is Cause.OLD_VERSION and is_version(mark.path)):
        return Verdict(
            Finding.KEEP, "metadata", "it is a version of the table itself, which is only trimmed as one"
        )
    if not neighbours.own:
        return _wait("no_place", "where the table lies is not known yet")
    folders, is_found = neighbours.where_it_may_go(mark.cause), mark.cause in FOUND
    own = deepest(mark.path, folders)
    origin = None if own is None else _origin(mark, folders[own])
    if own is None or origin is None or cluster(mark.path) != folders[own].cluster:
        return Verdict(
            Finding.KEEP, "elsewhere", "it lies in none of the folders where files of this table go"
        )
    held = (held_by(place, neighbours, is_found=is_found) for place in (mark.path, origin))
    if (other := next(filter(None, held), None)) is not None:
        return _wait("other_table", f"it lies in a folder of another table, {other}")
    return GO


def _origin(mark: Mark, own: Own) -> str | None:
    """Where a file was before it was moved, if it was. None where nothing of ours could have moved it there."""
    return origin_of(normalised(mark.path), own.of) if mark.cause is Cause.QUARANTINED else mark.path


def is_version(path: str) -> bool:
    """Whether a file is a version of a table's metadata that a catalog has named.

    Without a catalog the newest version is found by its number, so those (`v12.metadata.json`) are never taken for old.
    """
    return path.endswith(VERSION_ENDS) and _NUMBERED.fullmatch(name_of(path)) is None


def name_of(path: str) -> str:
    """The name of a file, without its folder."""
    return path.rpartition("/")[2]


def held_by(path: str, neighbours: Neighbours, *, is_found: bool) -> str | None:
    """The folder of another table in which a file lies: the table's own, or one within it.

    Args:
        path: the file.
        neighbours: where the table and others lie.
        is_found: whether the file was found by listing, so that nothing shows whose it was.
    """
    theirs = [*neighbours.others, *neighbours.claims] if is_found else neighbours.others
    # What the operator allows is no right to what is found.
    ours = neighbours.made | neighbours.quarantine if is_found else neighbours.own
    own, others = (deepest(path, folders) for folders in (ours, theirs))
    is_deeper = own is not None and others is not None and len(others) >= len(ours[own].of)
    return others if is_deeper else None


def may_go_at_once(path: str, job_id: str, *, was_sent: bool) -> bool:
    """Whether a file of a failed job may go without a grace: no request has named it, and its name is the job's.

    Args:
        path: the file.
        job_id: the job that wrote it.
        was_sent: whether a request of the job may have left this process, or of an earlier one of its name.
    """
    return is_of_job(path, job_id) and not was_sent and is_plain(path)


def is_of_job(path: str, job_id: str) -> bool:
    """Whether a job wrote a file, by its name. Where files are scattered, a name may begin with a hash."""
    name = name_of(path)
    return any(f"isotherm-{job_id}{end}" in name for end in "-.")


def is_gc_enabled(properties: Mapping[str, str]) -> bool:
    """Whether a table lets its files be deleted."""
    return says(properties, "gc.enabled", default=True)


def pause_ms(looks: int) -> int:
    """How long a file waits that had to wait so often already."""
    return min(FIRST_PAUSE_MS << min(looks, 20), LONGEST_PAUSE_MS)


def _wait(reason: str, why: str) -> Verdict:
    return Verdict(Finding.WAIT, reason, why)
