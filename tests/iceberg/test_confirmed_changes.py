"""What snapshots did is read from the table itself, many files at the same time."""

import threading
from dataclasses import replace

import pytest

from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.confirmed_changes import READ_AT_ONCE
from isotherm.service.ports import TooLong, Unavailable
from support.lab import Lab

COMMITS = 4


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


@pytest.fixture
def catalog(lab):
    return IcebergCatalog(lab.catalog)


def load(lab, catalog):
    """A table with some commits, and their ids, the oldest first."""
    table = lab.create()
    ids = [lab.append(table, hour).snapshot_id for hour in range(COMMITS)]
    return catalog.load("shop.orders"), ids


def together(loaded):
    """Have each file be read when as many are as there are commits."""
    opened, all_of_them = [], threading.Barrier(COMMITS, timeout=60)
    new_input = loaded.handle.io.new_input

    def wait(location):
        opened.append(location)
        all_of_them.wait()
        return new_input(location)

    loaded.handle.io.new_input = wait
    return opened


def test_the_lists_of_many_commits_are_read_at_the_same_time_when_a_head_is_confirmed(lab, catalog):
    loaded, ids = load(lab, catalog)
    changes = list(catalog.changes(loaded, ids))
    lie = replace(changes[1], manifests=())
    opened = together(loaded)

    assert catalog.are_true(loaded, [changes[0], lie, *changes[2:]]) == [True, False, True, True]
    assert len(opened) == COMMITS


def test_a_head_is_confirmed_in_as_much_time_as_there_is(lab, catalog):
    """Sixty lists of a hundred thousand names are a minute in which no event of any table is taken."""
    loaded, ids = load(lab, catalog)
    changes, asked = list(catalog.changes(loaded, ids)), []

    def go_on():
        asked.append(True)
        if len(asked) == 2:
            raise TooLong("it takes too long")

    with pytest.raises(TooLong):
        catalog.are_true(loaded, changes, go_on)


def test_lists_and_little_manifests_of_what_nobody_announced_are_read_at_the_same_time(lab, catalog):
    loaded, ids = load(lab, catalog)
    opened = together(loaded)

    assert [one.snapshot_id for one in catalog.changes(loaded, ids)] == ids
    assert len(opened) == 2 * COMMITS, "a list and a manifest of each"


def test_what_was_not_announced_is_read_a_few_snapshots_at_a_time(lab, catalog):
    loaded, ids = load(lab, catalog)
    opened, new_input = [], loaded.handle.io.new_input
    loaded.handle.io.new_input = lambda location: opened.append(location) or new_input(location)
    changes = catalog.changes(loaded, [ids[0]] * (READ_AT_ONCE + 1))
    next(changes)

    assert len(opened) == 2 * READ_AT_ONCE
    assert len(list(changes)) == READ_AT_ONCE
    assert list(catalog.changes(loaded, [])) == []
    assert list(catalog.are_true(loaded, [])) == []


def test_a_list_that_cannot_be_read_is_named_with_its_snapshot(lab, catalog):
    loaded, ids = load(lab, catalog)
    changes = list(catalog.changes(loaded, ids))
    new_input, bad = loaded.handle.io.new_input, loaded.handle.metadata.snapshot_by_id(ids[2]).manifest_list

    def fail(location):
        if location == bad:
            raise ConnectionError("the store is away")
        return new_input(location)

    loaded.handle.io.new_input = fail
    with pytest.raises(Unavailable, match=f"snapshot {ids[2]} of shop.orders"):
        catalog.are_true(loaded, changes)
    with pytest.raises(Unavailable, match=f"snapshot {ids[2]} of shop.orders"):
        list(catalog.changes(loaded, ids))
