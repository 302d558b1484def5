"""What lies in a table's metadata folder beside its own versions keeps what was found from going, and when it does not."""

import gc
import gzip
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.table import StaticTable
from sqlalchemy.exc import IntegrityError

from isotherm.clients.listing import StoredFile
from isotherm.core.deletion import FOUND, Cause
from isotherm.iceberg import metadata_folder
from isotherm.iceberg.stopping import never
from isotherm.iceberg.threads import THREADS
from isotherm.runtime.clock import now_ms
from support.builders import DAY
from support.lab import Lab, uuid_of
from support.object_store import Fault, object_store

FEW = {"write.metadata.previous-versions-max": "3"}


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    made.executor.stop()


def filled(lab, commits=8, name="shop.orders"):
    table = lab.create(name, **FEW)
    for hour in range(commits):
        lab.append(table, hour)
    return table.refresh()


def against(table, gone=()):
    return dict(
        metadata_folder.beside(
            table, table.metadata.location, frozenset(gone), now_ms(), never, THREADS
        ).against
    )


def folder(table):
    return Path(table.metadata.location.removeprefix("file://")) / "metadata"


def changed(table, name, **fields):
    """A version like the newest one, but for some fields."""
    newest = Path(table.metadata_location.removeprefix("file://"))
    (folder(table) / name).write_text(json.dumps(json.loads(newest.read_text()) | fields))


def at_version(lab, table, number):
    """The table as a catalog has it that was set back to one of its versions."""
    path = sorted(folder(table).glob("*.metadata.json"))[number]
    lab.catalog.drop_table("shop.orders")
    return lab.catalog.register_table("shop.orders", f"file://{path}")


def test_old_versions_of_a_table_are_nothing_against_it(lab):
    assert against(filled(lab)) == {}


def test_a_catalog_that_was_set_back_does_not_know_all(lab):
    table = at_version(lab, filled(lab), 4)

    (why,) = set(against(table).values())
    assert "its last sequence number is 8, not 4" in why
    assert set(against(table)) == set(FOUND)


def test_a_restored_catalog_that_went_on_past_the_lost_history_finds_it_by_what_it_went_on_from(lab):
    """A copy of the catalog, to which somebody else goes on to write, looks the same."""
    table = filled(lab)
    hour_ms = 3_600_000
    lost = table.metadata.last_updated_ms + hour_ms
    changed(table, "00099-lost.metadata.json", **{
        "last-updated-ms": lost,
        "metadata-log": [{"timestamp-ms": lost - 1000, "metadata-file": f"{table.metadata.location}/metadata/00098-lost.metadata.json"}],
    })  # fmt: skip
    newest = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    newest["last-updated-ms"] = lost + hour_ms
    Path(table.metadata_location.removeprefix("file://")).write_text(json.dumps(newest))

    (why,) = set(against(lab.catalog.load_table("shop.orders")).values())
    assert why == (
        "00099-lost.metadata.json goes on from 00098-lost.metadata.json, which the catalog's version does not know"
    )


def test_what_was_made_after_the_catalogs_version_is_not_known_to_it(lab):
    """Statistics that were lost with a catalog's last minutes change no number."""
    table = filled(lab)
    changed(table, "00099-a.metadata.json", **{"last-updated-ms": table.metadata.last_updated_ms + 1})

    (why,) = set(against(table).values())
    assert why.startswith("00099-a.metadata.json was made after the catalog's version; delete it if")


def test_what_is_committed_while_the_folder_is_looked_at_is_in_order(lab):
    """A stream commits all the time, and a proof takes minutes."""
    table = filled(lab, commits=4)
    late = lab.catalog.load_table("shop.orders")
    for hour in range(6):
        lab.append(late, hour)

    assert against(table) == {}


def test_a_commit_that_is_about_to_be_in_force_is_given_a_moment(lab):
    table = filled(lab, commits=4)
    before = table.metadata_location
    late = lab.catalog.load_table("shop.orders")
    lab.append(late, 9)
    newest = late.refresh().metadata_location

    class Catalog:
        """One whose pointer is set on the second look."""

        loads = 0

        def load_table(self, name):
            self.loads += 1
            location = newest if self.loads > 1 else before
            found = StaticTable.from_metadata(location)
            found.catalog, found.identifier = self, name
            return found

    table.catalog = Catalog()

    assert against(table) == {}
    assert table.catalog.loads == 2


def test_versions_that_lie_elsewhere_are_looked_at_too(lab, tmp_path):
    """`write.metadata.path` is another folder."""
    table = filled(lab, commits=2)
    elsewhere = tmp_path / "elsewhere"
    table.transaction().set_properties({"write.metadata.path": f"file://{elsewhere}"}).commit_transaction()
    for hour in range(6):
        lab.append(table, hour)
    backup = sorted(elsewhere.glob("*.metadata.json"))[2]
    lab.catalog.drop_table("shop.orders")
    table = lab.catalog.register_table("shop.orders", f"file://{backup}")

    assert "further than the catalog's version" in against(table)[Cause.ORPHAN]


def test_a_commit_that_lost_against_another_says_nothing(lab):
    table = filled(lab, commits=4)
    changed(table, "00004-lost.metadata.json")
    lab.append(table, 9)

    assert against(table.refresh()) == {}


def refused(lab, table, times):
    """Commits that the catalog's database refuses. Each leaves the version behind that it wrote before."""
    before = set(folder(table).glob("*.metadata.json"))
    with closing(sqlite3.connect(f"{lab.root}/catalog.db")) as db:
        db.execute(
            "CREATE TRIGGER no BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ABORT, 'read only'); END"
        )
        for _ in range(times):
            with pytest.raises(IntegrityError, match="read only"):
                lab.append(lab.catalog.load_table("shop.orders"), 9)
        db.execute("DROP TRIGGER no")
    return {path.name for path in set(folder(table).glob("*.metadata.json")) - before}


def test_what_a_refused_commit_left_cannot_be_told_from_what_a_catalog_lost(lab):
    """So both keep what was found, until the next commit, or until a person has deleted them."""
    table = filled(lab)
    left = refused(lab, table, 1)
    of_refusal = against(table)
    for name in left:
        (folder(table) / name).unlink()
    lab.append(table, 9)
    of_loss = against(at_version(lab, table.refresh(), -2))

    def worded(found):
        return {cause: re.sub(r"\S+\.metadata\.json", "ONE", why) for cause, why in found.items()}

    assert worded(of_refusal) == worded(of_loss)
    assert of_refusal.keys() == set(FOUND)
    lost = max(folder(table).glob("*.metadata.json"))
    lost.unlink()
    assert against(lab.catalog.load_table("shop.orders")) == {}


def test_the_next_commit_settles_what_refused_ones_left(lab):
    table = filled(lab)
    refused(lab, table, 3)
    assert against(table).keys() == set(FOUND)

    lab.append(table, 9)

    assert against(table.refresh()) == {}


def test_all_that_refused_commits_left_is_named_at_once(lab):
    table = filled(lab)
    left = refused(lab, table, 3)
    (why,) = set(against(table).values())
    assert left == set(re.findall(r"\S+?\.metadata\.json", why))
    refused(lab, table, 9)

    (why,) = set(against(table).values())
    assert why.endswith(" and 2 more")


@pytest.mark.parametrize("name", ["v12.metadata.json", "00012-x.gz.metadata.json"])
def test_versions_of_other_names_are_looked_at_too(lab, name):
    """A catalog of folders has the same table, and went on."""
    table = filled(lab)
    if "gz" in name:
        newest = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
        (folder(table) / name).write_bytes(
            gzip.compress(json.dumps(newest | {"last-sequence-number": 12}).encode())
        )
    else:
        changed(table, name, **{"last-sequence-number": 12})

    assert "its last sequence number is 12, not 8" in against(table)[Cause.ORPHAN]


def test_the_metadata_of_another_table_keeps_orphans_and_quarantine_until_it_is_known_to_be_gone(lab):
    """One was renamed, and another made in its place: by its old name, in its old folder."""
    table, other = filled(lab), filled(lab, name="shop.other")
    for one in folder(other).glob("*.metadata.json"):
        shutil.copy(one, folder(table))

    found = against(table)
    assert set(found) == {Cause.ORPHAN, Cause.QUARANTINED}
    assert f"is of another table, {uuid_of(other)}" in found[Cause.ORPHAN]
    # Its last commit was just now: another catalog may have it.
    assert against(table, gone={uuid_of(other)}).keys() == {Cause.ORPHAN, Cause.QUARANTINED}

    for one in folder(other).glob("*.metadata.json"):
        older = re.sub(
            r'("last-updated-ms": ?)(\d+)',
            lambda said: said[1] + str(int(said[2]) - 8 * DAY),
            one.read_text(),
        )
        (folder(table) / one.name).write_text(older)
    assert against(table, gone={uuid_of(other)}) == {}


def test_the_metadata_of_another_table_is_found_behind_many_versions_of_the_tables_own(lab, monkeypatch):
    """Those of a table that was here before are the oldest; hundreds of versions that nobody names are ordinary."""
    monkeypatch.setattr(metadata_folder, "MOST", 3)
    table, other = filled(lab), filled(lab, name="shop.other")
    first = min(folder(other).glob("*.metadata.json"))
    shutil.copy(first, folder(table))
    os.utime(folder(table) / first.name, (1, 1))
    newest = max(folder(table).glob("*.metadata.json"))
    for number in range(8):
        shutil.copy(newest, folder(table) / f"0000{number}-{uuid4()}.metadata.json")

    assert f"is of another table, {uuid_of(other)}" in against(table)[Cause.ORPHAN]


def test_of_any_number_of_versions_that_nobody_names_few_are_held(lab, monkeypatch):
    table, held = filled(lab), []

    def listed(io, folder):
        del io, folder
        for part in range(20):
            yield [StoredFile(f"{part}-{number}.metadata.json", 1, number) for number in range(1000)]
            held.append(sum(isinstance(one, StoredFile) for one in gc.get_objects()))

    monkeypatch.setattr(metadata_folder, "files_below", listed)

    against(table)

    assert len(held) >= 20
    assert max(held) < 3000, "two parts of a thousand, and the newest and the oldest"


def test_what_is_no_version_of_any_table_says_nothing(lab):
    table = filled(lab)
    (folder(table) / "00001-y.metadata.json").write_bytes(b"{")
    (folder(table) / "00001-z.gz.metadata.json").write_bytes(b"\x1f\x8bno")

    assert against(table) == {}


def test_a_young_version_that_cannot_be_read_may_be_what_the_catalog_does_not_know(tmp_path):
    with object_store() as store:
        lab = Lab(tmp_path, properties=store.lake(tmp_path))
        table = filled(lab)
        with table.io.new_output(f"{table.metadata.location}/metadata/00099-x.metadata.json").create() as out:
            out.write(b"{}")
        store.faults += [Fault("GET", "00099-x.metadata.json", 1000, "403")]

        found = against(table)
        lab.executor.stop()

    assert set(found) == set(FOUND)
    assert found[Cause.ORPHAN].startswith("00099-x.metadata.json cannot be read")
