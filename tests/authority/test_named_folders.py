"""Folders outside of locations that the operator allows to each table by its name (`deletions.also_under`)."""

import pyarrow.parquet as pq
import pytest

from isotherm.core import observations as seen
from support.lab import EXPIRING, HOURS, SCHEMA, Lab, of, started

QUARTER_MS = 900_000


def turns(lab, service, number):
    for _ in range(number):
        lab.ahead_ms += QUARTER_MS
        service.step(0)
        service.maintainer.wait(30)


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path, policy=EXPIRING)
    allowed = [f"file://{tmp_path}/files/{{namespace}}/{{name}}"]
    deletions = made.config.deletions.model_copy(update={"also_under": allowed})
    made.config = made.config.model_copy(update={"deletions": deletions})
    yield made
    made.executor.stop()


def taken_in(lab, table, file):
    """The table has a file's rows, where it lies."""
    table.add_files([f"file://{file}"])
    return table.refresh()


@pytest.mark.parametrize("levels", [("a/b", "c"), ("a", "b"), ("{name}", "c")], ids=".".join)
def test_a_folder_that_is_named_for_a_table_is_entered_from_no_other(lab, levels):
    """The owner of another table names a file of this one's folder in it, and deletes it from there."""
    victim, donor = lab.create("a.b.c"), lab.create("shop.donor")
    lab.append(donor, 7, announce=False)
    (written,) = donor.refresh().inspect.files()["file_path"].to_pylist()
    file = lab.root / "files/a/b/c/at_hour=x/old.parquet"
    file.parent.mkdir(parents=True)
    with donor.io.new_input(written).open() as source:
        pq.write_table(pq.read_table(source), file, store_schema=False)
    taken_in(lab, victim, file)
    lab.catalog.create_namespace_if_not_exists(levels[:-1])
    evil = lab.catalog.create_table(levels, SCHEMA, partition_spec=HOURS, location=f"file://{lab.root}/evil")
    taken_in(lab, evil, file).delete()
    for hour in (1, 2, 3, 4, 5):
        lab.append(evil, hour, announce=False)
    service = started(lab)
    turns(lab, service, 60)

    assert of(lab, seen.FilesDeleted)
    assert file.exists()
    assert len(victim.refresh().scan().to_arrow()) == 2
    service.stop()


def test_in_the_folder_that_is_named_for_a_table_its_files_go(lab):
    table = lab.create("a.b", **{"write.data.path": f"file://{lab.root}/files/a/b"})
    lab.create("a.b.c")
    for hour in (1, 1, 1, 2, 3, 4, 5):
        lab.append(table, hour, announce=False)
    first = lab.root / "files/a/b/at_hour=2026-01-01-01"
    before = set(first.iterdir())
    service = started(lab)
    turns(lab, service, 10)
    for hour in (6, 7, 8):
        lab.append(table, hour, announce=False)
    turns(lab, service, 40)

    assert (len(before), len(before & set(first.iterdir()))) == (3, 0)
    service.stop()
