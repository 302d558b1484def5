"""What others commit while a mirror is written: what would make the rows wrong is refused, and nothing else is."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from isotherm_ingest.failures import Verdict, verdict
from support.upserts import Delete, Mirror, Put

pytestmark = pytest.mark.spark

STEPS = ("has read the vector", "knows its rows", "has found them", "has written its files")


@pytest.fixture
def mirror(spark, lake_folder):
    mirror = Mirror(spark, lake_folder, "bucket(4, id)")
    mirror.apply(*(Put(number, {"name": "old"}) for number in range(1, 9)))
    return mirror


def write(mirror, changes, step, meanwhile):
    """Write the changes; something else happens once the writer has come to a step."""
    prepared = mirror.prepared(changes)
    if step == STEPS[0]:
        meanwhile()
    attempt = mirror.attempt(*prepared)
    try:
        if step == STEPS[1]:
            meanwhile()
        located = attempt.locate()
        if step == STEPS[2]:
            meanwhile()
        attempt.write(located, mirror.summary(), lambda _: meanwhile() if step == STEPS[3] else None)
    finally:
        attempt.close()


def refused(mirror, changes, step, meanwhile):
    with pytest.raises((Py4JJavaError, PySparkException)) as caught:
        write(mirror, changes, step, meanwhile)
    assert verdict(caught.value) is Verdict.CONFLICT, caught.value
    return str(caught.value)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "newer",
    [[Put(1, {"name": "newer"})], [Delete(77)]],
    ids=["the same key", "nothing to change"],
)
def test_a_driver_that_read_an_old_vector_never_commits(mirror, step, newer):
    """Whatever the other one wrote: also a key that it deleted, and that is not there, must not come back."""
    said = refused(mirror, [Put(1, {"name": "old"}), Put(77)], step, lambda: mirror.apply(*newer))

    assert (
        "pipeline shop has committed snapshot" in said
        or "conflicting" in said
        or "missing data files" in said
    )
    assert mirror.expected() == mirror.found()


@pytest.mark.parametrize("step", STEPS)
def test_a_row_that_somebody_else_gives_one_of_the_keys_is_not_doubled(mirror, step):
    theirs = f"INSERT INTO {mirror.spark_name} VALUES (77, 'theirs', NULL, NULL)"

    assert "conflicting" in refused(
        mirror, [Put(77, {"name": "ours"})], step, lambda: mirror.spark.sql(theirs)
    )
    mirror.apply(Put(77, {"name": "ours"}))
    assert mirror.expected() == mirror.found()


@pytest.mark.parametrize("step", [STEPS[0], STEPS[3]])
def test_rows_with_other_keys_hinder_nobody(mirror, step):
    theirs = f"INSERT INTO {mirror.spark_name} VALUES (77, 'theirs', NULL, NULL)"
    changes = [Put(1, {"name": "ours"}), Delete(2), Put(78)]
    write(mirror, changes, step, lambda: mirror.spark.sql(theirs))
    mirror.fold([*changes, Put(77, {"name": "theirs"})])

    assert mirror.expected() == mirror.found()


def test_a_file_that_was_rewritten_after_its_rows_were_found_is_found_again(mirror):
    assert "missing data files" in refused(mirror, [Delete(1)], STEPS[2], mirror.compact)
    mirror.apply(Delete(1))
    assert mirror.expected() == mirror.found()


def test_rewriting_other_files_hinders_nobody(mirror):
    changes = [Put(77, {"name": "new"})]
    write(mirror, changes, STEPS[2], mirror.compact)
    mirror.fold(changes)

    assert mirror.expected() == mirror.found()


def test_a_table_that_was_rolled_back_meanwhile_is_read_again(mirror):
    (first,) = mirror.found(f"SELECT snapshot_id FROM {mirror.spark_name}.snapshots")
    mirror.apply(Delete(1))
    back = f"CALL lake.system.rollback_to_snapshot('{mirror.name}', {first[0]})"

    refused(mirror, [Delete(2)], STEPS[2], lambda: mirror.spark.sql(back))


@pytest.mark.parametrize(
    ("theirs", "is_overtaken"),
    [
        (None, False),
        ("INSERT INTO {} VALUES (77, 'theirs', NULL, NULL)", False),
        ("DELETE FROM {} WHERE id = 8", True),
    ],
)
def test_who_takes_files_away_after_the_table_was_loaded_is_seen(mirror, theirs, is_overtaken):
    """The writer asks once more when its intent stands. Where files were only added, it goes on with what it has loaded."""
    attempt = mirror.attempt(*mirror.prepared([Put(1, {"name": "ours"})]))
    try:
        if theirs:
            mirror.spark.sql(theirs.format(mirror.spark_name))
        assert attempt.is_overtaken() == is_overtaken
        if not is_overtaken:
            attempt.write(attempt.locate(), mirror.summary(), lambda _: None)
    finally:
        attempt.close()
    mirror.fold([] if is_overtaken else [Put(1, {"name": "ours"})])
    more = [Delete(8)] if is_overtaken else [Put(77, {"name": "theirs"})] if theirs else []
    mirror.fold(more)
    assert mirror.expected() == mirror.found()
