"""Who may alter a table has no other table's rows copied into it, and nothing written into another table's folder."""

import pytest

from isotherm.core import observations as seen
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.service.trespass import trespass
from isotherm.store import Ledger
from support.lab import EXPIRING, Lab, of, settle, uuid_of


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING)


def files_of(table):
    return [task.file.file_path for task in table.refresh().scan().plan_files()]


def filled(lab, name):
    table = lab.create(name)
    for hour in (1, 1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    return table


def ends_of(service, table):
    return {
        (one.action, one.state, one.reason)
        for one in service.ledger.operations()
        if one.table.uuid == uuid_of(table)
    }


def test_rows_of_another_table_are_not_copied_into_the_one_that_names_its_files(lab):
    secret = filled(lab, "shop.aaa")
    table = filled(lab, "shop.bbb")
    table.refresh().add_files(files_of(secret))
    for hour in (9, 10):
        lab.append(table, hour)
    service = lab.settled()
    settle(service)
    service.stop()

    assert (Action.COMPACT, OutcomeKind.FAILED, Reason.LOCATION) in ends_of(service, table)
    assert (Action.COMPACT, OutcomeKind.DONE, Reason.COMMITTED) in ends_of(service, secret)
    why = next(one.why for one in of(lab, seen.JobEnded) if one.reason == Reason.LOCATION)
    assert "which lies in another table's folder" in why
    own = [task.file for task in table.refresh().scan().plan_files() if "/shop/bbb/" in task.file.file_path]
    assert sum(file.record_count for file in own) == 2 * 9, "no row of the other table is in its own files"


def test_a_table_made_under_a_name_that_was_renamed_away_is_compacted_in_the_folder_of_the_first(lab):
    first = filled(lab, "shop.orders")
    service = lab.settled()
    lab.catalog.rename_table("shop.orders", "shop.orders_old")
    table = filled(lab, "shop.orders")
    assert table.location() == first.location()
    settle(service)
    service.stop()

    assert (Action.COMPACT, OutcomeKind.DONE, Reason.COMMITTED) in ends_of(service, table)
    assert Reason.LOCATION not in {reason for _, _, reason in ends_of(service, table)}


def test_the_table_that_has_the_folder_is_looked_for_and_once_it_is_gone_the_folder_is_free(lab):
    gone = filled(lab, "shop.aaa")
    table = filled(lab, "shop.bbb")
    table.refresh().add_files(files_of(gone))
    for hour in (9, 10):
        lab.append(table, hour)
    service = lab.service()
    # Only its place is known, as of one that another daemon followed.
    service.ledger.place(uuid_of(gone), gone.location())
    lab.catalog.drop_table("shop.aaa")
    service.start()
    for _ in range(40):
        settle(service)
        lab.ahead_ms += 3_600_000
    service.stop()

    assert uuid_of(gone) in service.ledger.gone()
    assert (Action.COMPACT, OutcomeKind.DONE, Reason.COMMITTED) in ends_of(service, table)


HOME, OTHER = "s3://lake/hr/salaries", "s3://lake/shop/orders"


class Loaded:
    """What is asked of a table."""

    table = type("Table", (), {"uuid": "mine"})


def said_of(ledger, path):
    found = trespass(ledger, Loaded(), [LiveFile(path, FileKind.DATA, 1, 1, 1)])
    return None if found is None else found[1]


@pytest.mark.parametrize(
    ("places", "read", "refused"),
    [
        ([], f"{OTHER}/data/a", False),
        ([("mine", OTHER)], "s3a://lake/elsewhere/a", False),
        ([("his", HOME), ("mine", OTHER)], f"{OTHER}/data/a", False),
        ([("his", HOME), ("mine", OTHER)], f"{HOME}/data/a", True),
        ([("his", HOME), ("mine", OTHER)], "s3a://lake/hr/salaries/d=1/a", True),
        ([("his", HOME), ("mine", OTHER)], f"{OTHER}/../../hr//salaries/data/a", True),
        # What a table is laid into later is not its own, whatever is altered; nor is what lies deeper there.
        ([("his", HOME), ("mine", OTHER), ("mine", HOME)], f"{HOME}/data/a", True),
        ([("his", HOME), ("mine", OTHER), ("mine", f"{HOME}/d=1")], f"{HOME}/d=1/a", True),
        # A folder above another table's is no right to what lies there.
        ([("his", HOME), ("mine", OTHER), ("mine", "s3://lake/hr")], f"{HOME}/data/a", True),
        # Where it was from the beginning it is at home.
        ([("his", HOME), ("mine", HOME)], f"{HOME}/data/a", False),
        ([("his", "s3://lake/a"), ("mine", "s3://lake/a/b")], "s3://lake/a/b/data/x", False),
        ([("mine", OTHER), ("mine", "s3://lake/more"), ("his", "s3://lake/more")], "s3://lake/more/a", False),
        ([("his", "hdfs://dr/wh/t"), ("mine", "hdfs://dr/wh/u")], "hdfs://prod/wh/t/data/a", False),
        ([("his", "hdfs://dr/wh/t"), ("mine", "hdfs://dr/wh/u")], "hdfs://dr/wh/t/data/a", True),
    ],
)
def test_who_was_seen_first_in_a_folder_has_it(places, read, refused):
    ledger = Ledger(None)
    for uuid, place in places:
        ledger.place(uuid, place)

    assert (said_of(ledger, read) is not None) == refused
    ledger.left("his")
    assert said_of(ledger, read) is None
