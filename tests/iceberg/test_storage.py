"""What is written and deleted lies where its location says, whatever the table's owner has chosen."""

import pytest

from isotherm.iceberg.storage import RetryingFileIO, UnsafeLocationError
from support.lab import Lab, uuid_of


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim.parquet"
    path.write_bytes(b"rows")
    yield path
    assert path.read_bytes() == b"rows"


@pytest.mark.parametrize("tail", ["#", "#/metadata/a", "?", "?x=y", "/../victim.parquet", "/./a", "//a"])
def test_nothing_is_written_or_deleted_where_a_location_may_mean_another_file(victim, tail):
    io = RetryingFileIO()

    with pytest.raises(UnsafeLocationError):
        io.new_output(f"file://{victim}{tail}")
    with pytest.raises(UnsafeLocationError):
        io.delete(f"file://{victim}{tail}")


@pytest.mark.parametrize("overwrite", [True, False])
def test_no_file_is_written_over_another_one(victim, overwrite):
    with pytest.raises(FileExistsError):
        RetryingFileIO().new_output(f"file://{victim}").create(overwrite=overwrite)


def test_a_table_whose_files_would_lie_elsewhere_is_not_compacted_and_says_why(tmp_path):
    lab = Lab(tmp_path)
    victim = lab.create("shop.victim")
    lab.append(victim, 1)
    (task,) = victim.scan().plan_files()
    evil = lab.create("shop.evil")
    for hour in (1, 1, 1, 1, 9, 9):
        lab.append(evil, hour)
    with evil.refresh().transaction() as change:
        change.set_properties({"write.data.path": f"{task.file.file_path}#"})
    service = lab.service()
    service.start()
    for _ in range(6):
        service.step(0)

    assert len(victim.refresh().scan().to_arrow()) == 2
    (quarantine,) = service.ledger.quarantined(uuid_of(evil)).values()
    assert "write.data.path" in quarantine.why
    service.stop()
