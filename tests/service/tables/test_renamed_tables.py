"""The name by which a table is known follows its renames, whatever that name was before."""

from dataclasses import replace

import pytest

from isotherm.service.tables.missing_tables import GONE_AFTER_S
from support.deleting import followed
from support.lab import EXPIRING, Lab, uuid_of


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING)


@pytest.mark.parametrize("is_lagging", [False, True])
def test_a_table_that_was_renamed_out_of_a_namespace_that_nobody_may_list_loses_its_old_name(lab, is_lagging):
    """No list ever says that it is gone: the name itself is asked, twice, and one answer of a replica is none."""
    table, service = followed(lab)
    uuid = uuid_of(table)
    lab.append(lab.create("zoo.other"), 1)
    names = service.catalog.names

    def hidden(*_):
        listing = names()
        shown = [one for one in listing.names if not one.startswith("shop.")]
        return replace(listing, names=shown, unlisted={"shop": "403"})

    service.catalog.names = hidden
    lab.catalog.rename_table("shop.orders", "zoo.orders")
    lab.append(lab.catalog.load_table("zoo.orders"), 2)
    service.follower.suspects |= {"shop.orders", "zoo.orders"}
    for _ in range(4):
        lab.ahead_ms += 10_000
        service.step(0)
    assert service.fold.names()[uuid] == "zoo.orders"
    assert set(service.seen_names.of(uuid)) == {"shop.orders", "zoo.orders"}
    if is_lagging:
        lab.catalog.rename_table("zoo.orders", "shop.orders")
        lab.catalog.register_table("zoo.orders", lab.catalog.load_table("shop.orders").metadata_location)
    for _ in range(3):
        lab.ahead_ms += int(GONE_AFTER_S * 1000) + 1000
        service.follower.suspects.add("zoo.orders")
        service.step(0)

    assert set(service.seen_names.of(uuid)) == {"zoo.orders"} | ({"shop.orders"} if is_lagging else set())
    service.stop()


@pytest.mark.parametrize("past", ["new", "swapped", "made again", "dropped and renamed"])
def test_the_name_by_which_a_table_is_known_is_kept_whatever_it_was_before(lab, past):
    """No look need come for it: a listed name is looked at once, and again where files wait."""
    table, service = followed(lab)
    other = lab.create("shop.other")
    lab.append(other, 1)
    for _ in range(3):
        service.step(0)
    if past == "swapped":
        for before, after in (("orders", "t"), ("other", "orders"), ("t", "other")):
            lab.catalog.rename_table(f"shop.{before}", f"shop.{after}")
        table = lab.catalog.load_table("shop.orders")
    elif past == "made again":
        lab.catalog.rename_table("shop.orders", "shop.old")
        table = lab.create()
    elif past == "dropped and renamed":
        lab.catalog.drop_table("shop.orders")
        lab.catalog.rename_table("shop.other", "shop.orders")
        table = lab.catalog.load_table("shop.orders")
    lab.append(table, 3)
    for _ in range(6):
        lab.ahead_ms += int(GONE_AFTER_S * 1000)
        service.follower.suspects.add("shop.orders")
        service.step(0)

    assert service.fold.names()[uuid_of(table)] == "shop.orders"
    assert service.ledger.seen_names()["shop.orders"] == uuid_of(table)
    service.stop()
