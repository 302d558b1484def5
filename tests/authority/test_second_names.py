"""A second name of one table that nobody can settle keeps no other table's files for ever."""

from pathlib import Path

import pytest
from pyiceberg.exceptions import ForbiddenError

from isotherm.core import observations as seen
from support.faults import FaultyCatalog
from support.lab import EXPIRING, Lab, of, started, uuid_of

NAMED = EXPIRING.replace('tables: "*"', "tables: shop.*")
QUARTER_MS = 900_000


class Refusing(FaultyCatalog):
    """A catalog that refuses a name."""

    refused = ""

    def load_table(self, identifier):
        if identifier == self.refused:
            raise ForbiddenError("principal may not load it")
        return self.catalog.load_table(identifier)


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path, policy=NAMED)
    made.catalog = Refusing(made.catalog)
    yield made
    made.executor.stop()


def hours(lab, service, number):
    for _ in range(4 * number):
        lab.ahead_ms += QUARTER_MS
        service.step(0)
        service.maintainer.wait(30)


def deleted_of(lab, name):
    return sum(one.files for one in of(lab, seen.FilesDeleted) if one.table.name == name)


def other_with_leftovers(lab):
    other = lab.create("shop.other")
    for hour in (1, 1, 1, 2, 3, 4, 5, 6):
        lab.append(other, hour)


def test_an_old_name_that_is_refused_and_not_listed_any_more_was_renamed(lab):
    table = lab.create("shop.orders")
    lab.append(table, 1)
    service = started(lab)
    hours(lab, service, 1)
    lab.catalog.catalog.rename_table("shop.orders", "shop.sold")
    lab.catalog.refused = "shop.orders"
    other_with_leftovers(lab)
    hours(lab, service, 12)

    assert service.fold.names()[uuid_of(table)] == "shop.sold"
    assert of(lab, seen.TableHalted) == []
    assert deleted_of(lab, "shop.other")
    service.stop()


def test_an_old_name_that_another_team_has_by_now_keeps_no_other_tables_files_for_ever(lab):
    table = lab.create("shop.orders")
    lab.append(table, 1)
    service = started(lab)
    hours(lab, service, 1)
    lab.catalog.catalog.rename_table("shop.orders", "shop.sold")
    lab.create("shop.orders")
    lab.catalog.refused = "shop.orders"
    other_with_leftovers(lab)
    hours(lab, service, 20)
    assert deleted_of(lab, "shop.other") == 0
    hours(lab, service, 10)

    assert deleted_of(lab, "shop.other")
    service.stop()


def test_a_second_entry_whose_head_cannot_be_read_halts_its_table_alone(lab):
    table = lab.create("shop.orders")
    lab.append(table, 1)
    old, lists = table.refresh().metadata_location, table.current_snapshot().manifest_list
    lab.append(table, 2)
    lab.catalog.catalog.create_namespace("vault")
    lab.catalog.catalog.register_table("vault.backup", old)
    table.refresh().maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
    Path(lists.removeprefix("file://")).unlink()
    other_with_leftovers(lab)
    service = started(lab)
    hours(lab, service, 12)

    (halted,) = of(lab, seen.TableHalted)
    assert (halted.table.name, halted.reason) == ("shop.orders", "two_entries")
    assert deleted_of(lab, "shop.other")
    service.stop()
