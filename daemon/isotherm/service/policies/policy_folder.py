"""The folder of policies, read and read again.

Every file is held in its last good version: one that breaks, or cannot be read, stops no table. A broken file of which
no good version is known leaves its tables alone, at every start and whenever it appears, because a more general file
was never meant for them; where nobody can tell which they are, nothing is deleted. A file that is gone has ended its
policies on purpose; a folder that is gone has not. What changed is taken as a whole, and only once it looks the same
in two readings in a row, so that a file which is still being written, or a folder in which files are just being
swapped, is waited for. That holds at a restart too.

A reading looks at the files' dates and sizes; only what changed is opened, a slice of it in each reading.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from isotherm.core.policy.conflicts import conflicts
from isotherm.core.policy.precedence import PolicyFile, Resolved
from isotherm.core.policy.rulebook import Gap, Rulebook
from isotherm.runtime.strict_model import ConfigError
from isotherm.service.policies.policy_file import MAX_FILE_BYTES, decoded_name, is_policy, judged, text_of
from isotherm.service.policies.tables_of_broken_file import NOBODY_KNOWS, gap_of

MAX_FOLDER_BYTES = 4_000_000
"""Of all files together, by their names: what comes behind is not read. Thousands of policies are a megabyte."""
SLICE_BYTES = 300_000
"""So much of what changed is opened in one reading; the next one goes on. PyYAML takes up to 10 s for a megabyte."""
LEAST_BYTES = 1000
"""A file counts as so much at least: to open one, and to judge it, costs something though it is empty."""
MAX_UNSETTLED = 5
"""A folder in which something changes in each of so many readings is taken as it is."""

Look = tuple[int, int, int, int] | str
"""How a file looked from outside (modified, changed, size, inode), or why it cannot be read."""
NO_FILE = "is no file"
TOO_MUCH = f"the files before it, and it, have more than {MAX_FOLDER_BYTES} bytes"


class _UnreadableError(Exception):
    """A file that cannot be opened now; the next reading tries again."""


@dataclass(frozen=True, slots=True)
class Held:
    """A file in force: its last good version."""

    text: str
    file: PolicyFile


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file that was opened, in the version with this look."""

    look: Look
    data: bytes | None = None
    """What was read, where it could be."""
    held: Held | None = None
    complaint: str | None = None
    is_unreadable: bool = False
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading in which something was different: what was in force before, and what is now."""

    before: Rulebook
    after: Rulebook


@dataclass(slots=True)
class PolicyFolder:
    """The policies in a folder (`*.yaml`, `*.yml`), without its sub-folders and hidden files."""

    path: Path
    complaints: tuple[str, ...] = ()
    """What is wrong with the files as they are now; one line each."""
    _held: dict[str, Held] = field(default_factory=dict)
    _book: Rulebook = field(default_factory=lambda: Rulebook({}))
    _broken: dict[str, str] = field(default_factory=dict)
    """What is wrong with a file in the version that was opened last."""
    _taken: dict[str, Look] | None = None
    """How the files looked when they were taken, or None where all of them must be taken again."""
    _gaps: dict[str, Gap] = field(default_factory=dict)
    """What a file is about, of which no good version is known."""
    _lost: dict[str, str] = field(default_factory=dict)
    """Files that were in force before a restart, in a version that this program does not understand."""
    _opened: dict[str, _Opened] = field(default_factory=dict)
    """Files that the last readings opened, of a change that is not taken yet because more of it is to be opened."""
    _is_started: bool = False
    _seen: dict[str, Look] | None = None
    """How they looked at the last reading, or None where there was no folder."""
    _calm: int = 0
    """So many readings in a row looked like the one before."""
    _unsettled: int = 0

    def recall(self, texts: Mapping[str, str]) -> None:
        """Hold these versions, by file name, until there are better ones: what was in force before a restart."""
        for name, text in texts.items():
            try:
                self._held[name] = Held(text, judged(text, name))
            except ConfigError:
                # Written for another version of this program; the file itself will be complained about.
                self._lost[name] = text
        self._book = _book_of(self._held, {})

    @property
    def is_awaited(self) -> bool:
        """Whether, after a restart, the folder is another one than before and is not in force yet."""
        return not self._is_started and self._seen is not None

    def reload(self, *, at_once: bool = False) -> Reading | None:
        """Look at the folder again. Returns None where nothing is different from before.

        With `at_once` nothing is waited for: a command wants an answer.
        """
        try:
            looks = self._look()
        except FileNotFoundError:
            return self._without_a_folder("no such folder; set `policies:` in isotherm.yaml")
        except OSError as err:
            return self._without_a_folder(f"cannot be read: {err.strerror}")
        if looks == self._taken:
            self._seen, self._unsettled = looks, 0
            return None
        self._calm = self._calm + 1 if looks == self._seen else 0
        is_settling = not at_once and self._unsettled < MAX_UNSETTLED and self._is_settling(looks)
        self._seen = looks
        self._unsettled = self._unsettled + 1 if is_settling else 0
        if is_settling or not self._open_all(looks, float("inf") if at_once else SLICE_BYTES):
            return None
        return self._take(looks)

    @contextmanager
    def reloading(self) -> Iterator[Reading | None]:
        """Look at the folder again; a reading of which nothing came, because of an error, is had again next time."""
        before = copy(self)
        try:
            yield self.reload()
        except BaseException:
            for name in _IN_FORCE:
                setattr(self, name, getattr(before, name))
            raise

    def _is_settling(self, looks: dict[str, Look]) -> bool:
        if self._is_started:
            return self._calm < 1
        # The readings at a start and in the first round are moments apart. A daemon that knows nothing does not wait.
        known = self.texts()
        return bool(known) and self._calm < 2 and not self._is_as_known(looks, known)

    def _is_as_known(self, looks: Mapping[str, Look], known: Mapping[str, str]) -> bool:
        """Whether the folder has exactly what was in force before a restart."""
        try:
            return looks.keys() == known.keys() and all(
                text_of(name, self._bytes(name, look)) == known[name] for name, look in looks.items()
            )
        except (_UnreadableError, ConfigError):
            return False

    def _without_a_folder(self, why: str) -> Reading | None:
        complaint = f"{self.path}: {why}"
        if self.complaints == (complaint,):
            return None
        self.complaints, self._taken, self._seen = (complaint,), None, None
        return Reading(self._book, self._book)

    def _open_all(self, looks: dict[str, Look], at_most_bytes: float) -> bool:
        """Open what changed, so many bytes of it. Returns whether all of it is open."""
        taken, room, is_all = self._taken or {}, at_most_bytes, True
        changed = {name: look for name, look in looks.items() if look != taken.get(name)}
        self._opened = {name: one for name, one in self._opened.items() if name in changed}
        for name, look in changed.items():
            before = self._opened.get(name)
            if before is not None and before.look == look:
                continue
            opened = self._open(name, look, before, has_room=room > 0)
            if opened is None:
                self._opened.pop(name, None)
                is_all = False
                continue
            self._opened[name] = opened
            is_judged = before is None or opened.data != before.data
            room -= max(look[2], LEAST_BYTES) if is_judged and not isinstance(look, str) else 0
        return is_all

    def _open(self, name: str, look: Look, before: _Opened | None, *, has_room: bool) -> _Opened | None:
        """Open a file. Returns None where it is another text than before, and there is no room to judge it."""
        data, held = None, self._held.get(name)
        if before is None and not has_room:
            return None
        try:
            data = self._bytes(name, look)
            if before is not None and before.data == data:
                return replace(before, look=look)  # written again, with the same text
            if not has_room:
                return None
            text = text_of(name, data)
            same = held is not None and text == held.text
            return _Opened(look, data, held if same else Held(text, judged(text, name)))
        except (_UnreadableError, ConfigError) as err:
            is_unreadable = isinstance(err, _UnreadableError)
            complaint = f"{name}: {err}" if is_unreadable else str(err)
            gap = None if held is not None else self._gap(name, look, data)
            return _Opened(look, data, None, complaint, is_unreadable, gap)

    def _take(self, looks: dict[str, Look]) -> Reading | None:
        """Put in force what was opened, all of it together."""
        held = {name: one for name, one in self._held.items() if name in looks}
        broken = {name: text for name, text in self._broken.items() if name in looks}
        taken, gaps = dict(self._taken or {}), dict(self._gaps)
        for name, opened in self._opened.items():
            broken.pop(name, None)
            gaps.pop(name, None)
            taken[name] = opened.look
            if opened.held is not None:
                held[name] = opened.held
            if opened.complaint is not None:
                broken[name] = opened.complaint
                # What could not be read is no look that a file has: it is tried again.
                taken[name] = opened.complaint if opened.is_unreadable else opened.look
            if opened.gap is not None:
                gaps[name] = opened.gap
        self._opened = {}
        before, complaints, is_first = self._book, self.complaints, not self._is_started
        self._gaps = {name: gap for name, gap in gaps.items() if name in broken.keys() - held}
        self._lost = {name: text for name, text in self._lost.items() if name in self._gaps}
        self._held, self._broken, self._is_started = held, broken, True
        self._taken = {name: look for name, look in taken.items() if name in looks}
        after = _book_of(held, self._gaps)
        if (before.files, before.gaps) != (after.files, after.gaps):
            self._book = after
        self.complaints = (*_lines(broken), *_left_alone(self._gaps), *conflicts(self.files()))
        is_other = self._book is not before or complaints != self.complaints
        return Reading(before, self._book) if is_first or is_other else None

    def _gap(self, name: str, look: Look, data: bytes | None) -> Gap | None:
        """What a broken file is about, as it is now or as it was before a restart, or None where it is no policy."""
        lost = gap_of(self._lost[name]) if name in self._lost else None
        if look == NO_FILE:
            return lost
        now = NOBODY_KNOWS if data is None else gap_of(data.decode("utf-8", "replace"))
        return now if lost is None else lost if now is None else now | lost

    def files(self) -> list[tuple[str, PolicyFile]]:
        """The policies in force, by file name."""
        return list(self._book.files.items())

    def texts(self) -> dict[str, str]:
        """The files in force as they were written, by file name, also those that another version understood."""
        return dict(sorted((self._lost | {name: held.text for name, held in self._held.items()}).items()))

    def resolve(self, table: str, properties: Mapping[str, str]) -> Resolved | None:
        """A table's policy, or None where no file matches it: it is then left alone."""
        return self._book.resolve(table, properties)

    def has_policy(self, table: str) -> bool:
        """Whether a table has a policy."""
        return self._book.has_policy(table)

    def why_none(self, table: str) -> str:
        """Why a table has no policy, and where the file is broken that is the reason."""
        broken = self._book.that_stops(table)
        place = f": {_first(self._broken[broken])}" if broken in self._broken else ""
        return f"{self._book.why_none(table)}{place}"

    def stands_in(self, table: str) -> str:
        """Which files that match a table are broken, so that their last good versions are in force; empty: none."""
        broken = sorted(self._book.names_of(table) & self._broken.keys() & self._held.keys())
        return "; ".join(
            f"the last good version of {name} is in force, because the file is broken ({_first(self._broken[name])})"
            for name in broken
        )

    def epochs_of(self, table: str, properties: Mapping[str, str]) -> Mapping[str, str]:
        """The partition fields of a table that hold a time as a number or text, and how, as its policy says."""
        resolved = self.resolve(table, properties)
        return {} if resolved is None else resolved.policy.cold.epochs

    def _look(self) -> dict[str, Look]:
        """How every policy file looks from outside. Raises OSError where there is no folder, or it cannot be read."""
        with os.scandir(self.path) as entries:
            names = sorted(entry.name for entry in entries)
        files = [name for name in names if is_policy(name)]
        left, looks = MAX_FOLDER_BYTES, dict[str, Look]()
        for name in files:
            look = self._look_at(name)
            left -= 0 if isinstance(look, str) else look[2]
            looks[decoded_name(name)] = look if left >= 0 else f"{TOO_MUCH}; not read"
        return looks

    def _look_at(self, name: str) -> Look:
        try:
            # Links are followed: a ConfigMap of Kubernetes is swapped by a link.
            found = (self.path / name).stat()
        except OSError as err:
            return f"cannot be read: {err.strerror}"
        if not stat.S_ISREG(found.st_mode):
            return NO_FILE
        if found.st_size > MAX_FILE_BYTES:
            return f"larger than {MAX_FILE_BYTES} bytes; not read"
        return _outside(found)

    def _bytes(self, name: str, look: Look) -> bytes:
        if isinstance(look, str):
            raise _UnreadableError(look)
        try:
            with (self.path / name).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
                if _outside(os.fstat(file.fileno())) != look:
                    raise _UnreadableError("is being written; read again soon")
        except OSError as err:
            raise _UnreadableError(f"cannot be read: {err.strerror}") from err
        return data


_IN_FORCE = ("complaints", "_held", "_book", "_broken", "_taken", "_gaps", "_lost", "_is_started")
"""What a reading changes, beside how the folder looked; each is replaced as a whole."""


def _outside(found: os.stat_result) -> Look:
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _book_of(held: Mapping[str, Held], gaps: Mapping[str, Gap]) -> Rulebook:
    return Rulebook({name: one.file for name, one in held.items()}, gaps)


def _left_alone(gaps: Mapping[str, Gap]) -> Iterator[str]:
    for name, gap in sorted(gaps.items()):
        said = f"{name}: no good version of it is known: until it is mended,"
        if gap.tables:
            yield f"{said} the tables that it names are left alone, except where another file is more specific"
        if not gap.is_whole:
            yield f"{said} nothing is deleted of any table, except where a file that names it says expire.keep_for"


def _first(complaints: str) -> str:
    """The first complaint about a file: it has the place."""
    first, _, more = complaints.partition("\n")
    return f"{first}; and {more.count(chr(10)) + 1} more" if more else first


def _lines(broken: Mapping[str, str]) -> Iterable[str]:
    return (line for _, text in sorted(broken.items()) for line in text.splitlines())


def in_force(path: Path, known: Mapping[str, str]) -> PolicyFolder:
    """A folder as the daemon will have it, which held these files when it last read; for commands."""
    policies = PolicyFolder(path)
    policies.recall(known)
    policies.reload(at_once=True)
    return policies
