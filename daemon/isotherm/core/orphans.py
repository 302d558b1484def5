"""Files that lie in a table's folders and that nothing needs any more: which are looked for, and how many are believed.

Two kinds, because each is recognised in its own way. *Old versions* of the metadata are those that the newest version
does not name any more. *Orphans* are all other files that no retained snapshot reaches. Both are found by listing
(`iceberg/orphans.py`), and then go the way of every deletion: marked, and proved once more after a grace (`deletion`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from isotherm.core.deletion import METADATA_ENDS, is_version, name_of
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


def without_newest(versions: Sequence[Orphan], keep: int) -> list[Orphan]:
    """The versions without so many of the newest."""
    oldest_first = sorted(versions, key=lambda one: (one.written_at_ms, name_of(one.path)))
    return oldest_first[: max(len(oldest_first) - keep, 0)]


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


def finding_text(found: Found, what: str) -> str:
    """The finding in words: `12 of 340 files (1.2 GiB) are …`."""
    said = f"{found.files} of {counted(found.listed, 'file')} ({size_text(found.bytes)}) {what}"
    return f"{said}; there are more in {min(found.held)}, which another table claims" if found.held else said
