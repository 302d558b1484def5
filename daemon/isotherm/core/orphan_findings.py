"""Files that lie in a table's folders and that nothing needs any more: which are looked for, and how many are believed.

Two kinds, because each is recognised in its own way. *Old versions* of the metadata are those that the newest version
does not name any more. *Orphans* are all other files that no retained snapshot reaches. Both are found by listing
(`iceberg/orphan_search.py`), and then go the way of every deletion: marked, and proved once more after a grace (`deletion`).
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from isotherm.core.deletion import METADATA_ENDS, is_version
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.units import DAY_MS, size_text
from isotherm.runtime.text import counted

GRACE_MS = DAY_MS
"""What was found waits so long before it is looked at again: seen twice, a day apart."""
FEW = 100
"""So few files are believed where they are no more than half: of a table of ten files four may well be what one crash has
left."""
ENDS = (".parquet", ".orc", ".avro", ".puffin", ".stats")
"""Of files that writers of Iceberg make; anything else in a table's folders is somebody's who does not write the table."""
TOLD = 100_000
"""Paths that one search gives. What is beyond them is found by the next search."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that nothing needs, as far as one search shows."""

    path: str
    size_bytes: int
    written_at_ms: int
    """By the store's clock."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found in a table's folders."""

    listed: int
    """Files of the kind that was looked for."""
    listed_bytes: int
    files: int
    """How many of them nothing needs."""
    bytes: int
    orphans: tuple[Orphan, ...]
    """Those, the oldest first, `TOLD` at most."""
    held: frozenset[str] = frozenset()
    """Folders of other tables in which there are more, and which may be gone."""
    quarantine: tuple[Orphan, ...] | None = None
    """What lies in the table's quarantine. None where that was not looked for, or cannot be listed."""
    is_whole: bool = True
    """Whether that is all. Else it is what the ledger does not know, `TOLD` at most, and what is needed again."""
    why_not: str = ""
    """Why it cannot be listed."""
    needed_again: frozenset[str] = frozenset()
    """Names of files in quarantine that files of the table have."""
    missed: frozenset[str] = frozenset()
    """Places of such files, where none lies where they were, and the table may mean them."""
    claimed: Mapping[str, str] = field(default_factory=dict)
    """By place, of the missed: the folder of another table in which it lies, or would lie. Then nobody puts it back."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A search from which nothing comes, and what lies in the table's quarantine all the same."""

    refusal: Refusal
    strangers: frozenset[str] = frozenset()
    """The uuids of other tables whose metadata lies in the folder, and that are not known to be gone."""
    quarantine: tuple[Orphan, ...] | None = None
    """None where that was not looked for, or cannot be listed. Else all, or what the ledger does not know of it, `TOLD`
    at most."""


class Unneeded:
    """What a search finds, one file after another: how many, of what size, and the oldest of them.

    A table may have millions of files that nothing needs. So no more of them are held than twice those that are told.
    """

    def __init__(self, told: int = TOLD) -> None:
        self._told = told
        self._held: dict[str, Orphan] = {}
        """By path: a store may list a file twice."""
        self._latest: tuple[int, str] | None = None
        """The youngest of those that were held when younger ones were let go."""
        self._beyond = self._beyond_bytes = 0

    @property
    def files(self) -> int:
        """How many there are."""
        return len(self._held) + self._beyond

    def add(self, one: Orphan) -> None:
        """Take in a file."""
        if self._latest is not None and _age(one) > self._latest:
            self._let_go(one)
            return
        self._held[one.path] = one
        if len(self._held) >= 2 * self._told:
            oldest_first = sorted(self._held.values(), key=_age)
            for younger in oldest_first[self._told :]:
                self._let_go(younger)
            self._held = {older.path: older for older in oldest_first[: self._told]}
            self._latest = _age(oldest_first[self._told - 1])

    def leave_out(self, paths: Container[str]) -> None:
        """Take out again what turned out to be somebody else's, of those that are held."""
        self._held = {path: one for path, one in self._held.items() if path not in paths}

    def without_newest(self, keep: int) -> tuple[int, int, tuple[Orphan, ...]]:
        """How many there are without so many of the newest, their bytes, and the oldest of them, as many as are told.

        Where that are more than are told, and some are kept, the bytes are by their mean.
        """
        files = max(self.files - keep, 0)
        oldest = tuple(sorted(self._held.values(), key=_age)[: min(files, self._told)])
        size_bytes = sum(one.size_bytes for one in oldest)
        if files > len(oldest):
            every = sum(one.size_bytes for one in self._held.values()) + self._beyond_bytes
            size_bytes = every * files // self.files
        return files, size_bytes, oldest

    def _let_go(self, one: Orphan) -> None:
        self._beyond += 1
        self._beyond_bytes += one.size_bytes


def _age(one: Orphan) -> tuple[int, str]:
    return one.written_at_ms, one.path


@dataclass(frozen=True, slots=True)
class Strangers:
    """Other tables whose metadata lies in the folder, and that are not known to be gone: so may be other files there."""

    uuids: frozenset[str]
    why: str

    @property
    def refusal(self) -> Refusal:
        """Why no orphan goes."""
        return Refusal(Reason.OTHER_HISTORY, f"in its metadata folder {self.why}")


def is_orphan_by_name(path: str) -> bool:
    """Whether a file may be an orphan at all. `path` begins below the table's location.

    Hidden files and folders are somebody else's, as for Spark and Iceberg's Java; `_day=1` is a folder of a partition.
    """
    parts = path.split("/")
    is_hidden = any(part[:1] in {"_", "."} and "=" not in part for part in parts)
    return not is_hidden and path.endswith(ENDS) and not f"/{path}".endswith(METADATA_ENDS)


def is_old_version_by_name(path: str) -> bool:
    """The same for a version of the metadata."""
    return path.startswith("metadata/") and path.count("/") == 1 and is_version(path)


def too_many(found: Found, max_share: float) -> str | None:
    """Why a finding is not believed, or None where it is.

    Where most of a table's files look like orphans, it is more likely that they are another table's, or that the table is
    not what it was: a location that moved, a catalog that was restored.
    """
    is_little = found.files <= FEW and found.files <= found.listed / 2
    if is_little or found.files <= found.listed * max_share:
        return None
    return (
        f"{found.files} of {counted(found.listed, 'file')} look like orphans, more than orphans.max_share allows "
        f"({max_share:.0%}); look at them (isotherm orphans TABLE), and raise it if they are"
    )


def quarantine_text(found: Found) -> str:
    """What must be told of a table's quarantine, after a semicolon; nothing where all is well."""
    said = ""
    if found.missed:
        said = f"; {counted(len(found.missed), 'file')} in quarantine are needed where they were"
    if found.claimed:
        stay = f"{len(found.claimed)} of them stay{'s' if len(found.claimed) == 1 else ''}"
        said += f", and {stay}: another table claims {min(found.claimed.values())}"
    return f"{said}; its quarantine cannot be listed: {found.why_not}" if found.why_not else said


def finding_text(found: Found, what: str) -> str:
    """The finding in words: `12 of 340 files (1.2 GiB) are …`."""
    said = f"{found.files} of {counted(found.listed, 'file')} ({size_text(found.bytes)}) {what}"
    return f"{said}; there are more in {min(found.held)}, which another table claims" if found.held else said
