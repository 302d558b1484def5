"""Whatever happens to files of one name, and whenever a process ends: no content is lost, and no half of a file is shown.

A writer writes files and uses their names again, the daemon takes them into quarantine and purges it, a person and the
daemon put them back, also while one is being taken. An oracle knows all that was ever written and what may be gone.
"""

from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.deletion import Cause, Mark, Neighbours, Seen
from isotherm.core.quarantine import FOLDER, folder_in
from isotherm.iceberg.delete_or_move import Taking
from isotherm.iceberg.quarantine import put_back
from isotherm.iceberg.restoring import Restorable, restore
from isotherm.service.ports import Sweep
from support.dying_stores import Dies, Dying

NAME, JOBS = "data/day=1/a.parquet", ("j1", "j2")
FILES = st.tuples(st.just(NAME), st.sampled_from(JOBS))
CONTENTS = st.sampled_from([b"rows", b"ROWS", b"row"])
DEATHS = st.sampled_from([0, 0, 0, 0, 1, 2, 3, 4, 5])
KINDS = st.sampled_from(["write", "write", "take", "take", "take", "put back", "restore", "purge", "break"])
MEANWHILE = st.sampled_from(["", "", "write", "put back", "restore"])
EVENTS = st.tuples(KINDS, FILES, DEATHS, CONTENTS, MEANWHILE)


class History:
    """A table's folder, and what must be in it somewhere."""

    def __init__(self, home, root):
        self.home, self.io = home, Dying(root)
        self.must, self.ever = set(), set()

    def there(self):
        """What lies there, by path below the home, but for hidden halves."""
        found = {}
        for part in ("data", FOLDER):
            for path in (self.io.root / part if self.is_local else self.io.root / "t" / part).rglob("*"):
                if path.is_file() and not path.name.startswith("_"):
                    found[str(path).partition("/t/")[2]] = path.read_bytes()
        return found

    @property
    def is_local(self):
        return self.home.startswith("file:")

    def write(self, file, what):
        """A writer makes a file, or writes it again: what was there before is gone for its sake, and not for ours."""
        path, left, breaks_at = f"{self.home}/{file[0]}", self.io.left, self.io.breaks_at
        self.io.left, self.io.breaks_at = 0, None
        if self.may_go(file[0]):
            self.io.delete(path)
        with self.io.new_output(path).create() as stream:
            stream.write(what)
        self.io.left, self.io.breaks_at = left, breaks_at
        self.must.add(what)
        self.ever.add(what)

    def may_go(self, name):
        """Somebody may delete what lies there, so its content may be gone, but for where else it lies; whether any does."""
        there = self.there()
        what = there.pop(name, None)
        if what not in there.values():
            self.must.discard(what)
        return what is not None

    def place(self, file):
        return f"{folder_in(self.home)}{file[1]}/{file[0]}"

    def dying(self, left, act):
        self.io.left = left
        with suppress(Dies, OSError):
            act()
        self.io.left, self.io.breaks_at = 0, None

    def taking(self, path, cause, job):
        mark = Mark(path, job, cause, Seen(1, 1))
        sweep = Sweep("t", (mark,), {}, Neighbours(), home=self.home, to_quarantine=True)
        return Taking(sweep, lambda: False)

    def act(self, kind, file, death, what, meanwhile=""):
        place, path = self.place(file), f"{self.home}/{NAME}"
        if kind == "write":
            self.write(file, what)
        elif kind == "break":
            self.io.breaks_at = death
        elif kind == "put back":
            self.dying(death, lambda: put_back(self.io, self.home, place))
        elif kind == "restore":
            # No snapshot, so nobody says which of several a table names.
            metadata = SimpleNamespace(snapshots=(), statistics=(), partition_statistics=())
            table = SimpleNamespace(io=self.io, metadata=metadata)
            handle = SimpleNamespace(handle=table)
            files = [Restorable(self.home, self.place((NAME, job)), path, 0) for job in JOBS]
            self.dying(death, lambda: restore(handle, files))
        elif kind == "purge":
            self.may_go(place.removeprefix(f"{self.home}/"))
            self.dying(
                death, lambda: self.taking(place, Cause.QUARANTINED, "j").take(self.io, place, lambda: False)
            )
        elif kind == "take":

            def right_before_the_end():
                self.act(meanwhile, file, 0, what)
                return False

            taking = self.taking(path, Cause.ORPHAN, file[1])
            self.dying(death, lambda: taking.take(self.io, path, right_before_the_end))

    def check(self):
        there = list(self.there().values())
        assert set(there) <= self.ever, "half of a file is shown"
        assert self.must <= set(there), "a content is lost"


@pytest.mark.parametrize("store", ["disk", "without copies"])
@given(st.lists(EVENTS, min_size=6, max_size=14))
def test_of_files_of_one_name_no_content_is_lost_whatever_happens(tmp_path_factory, store, events):
    root = tmp_path_factory.mktemp("store") / "t"
    root.mkdir()
    history = History(f"file://{root}", root) if store == "disk" else History("hdfs://nn/t", root.parent)
    for event in events:
        history.act(*event)
        history.check()
