"""Two tables whose levels are joined to one text: who owns the one gets nothing of the other."""

from pathlib import Path

from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from support.lab import EXPIRING, HOURS, SCHEMA, Lab, of, started, uuid_of

QUARTER_MS = 900_000


def turns(lab, service, number):
    for _ in range(number):
        lab.ahead_ms += QUARTER_MS
        service.step(0)
        service.maintainer.wait(30)


def test_a_table_whose_name_has_a_dot_is_no_other_table_and_deletes_nothing_of_it(tmp_path):
    """Who may create tables in `a` alone creates `b.c` there, lays it upon `c` in `a.b`, and takes in its files."""
    lab = Lab(tmp_path, policy=EXPIRING)
    victim = lab.create("a.b.c")
    lab.append(victim, 1, announce=False)
    service = started(lab)
    turns(lab, service, 4)
    files = [file["file_path"] for file in victim.refresh().inspect.files().to_pylist()]
    lab.catalog.create_namespace_if_not_exists("a")
    evil = lab.catalog.create_table(
        ("a", "b.c"),
        SCHEMA,
        partition_spec=HOURS,
        location=victim.location(),
        properties={f"write.{kind}.path": f"file://{tmp_path}/evil/{kind}" for kind in ("data", "metadata")},
    )
    evil.add_files(files)
    evil.refresh().delete()
    for hour in (1, 2, 3, 4, 5):
        lab.append(evil, hour, announce=False)
    turns(lab, service, 100)

    assert service.fold.names() == {uuid_of(victim): "a.b.c", uuid_of(evil): "a.b%2Ec"}
    assert of(lab, seen.TableGone) == []
    # The other one is maintained too, and what it wrote itself goes.
    assert "a.b%2Ec" in {one.table.name for one in of(lab, seen.SnapshotsExpired)}
    assert [file for file in files if not Path(normalised(file)).exists()] == []
    service.stop()
    lab.executor.stop()
