"""Who may alter a table has no other table's rows copied into it, and nothing written into another table's folder."""

import json
from pathlib import Path

import pytest

from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.service.trespass import trespass
from isotherm.store import Fold, Ledger
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


def test_nothing_is_written_into_the_folder_of_another_table(lab):
    other, table = filled(lab, "shop.aaa"), filled(lab, "shop.bbb")
    service = lab.settled()
    home = Path(normalised(other.location()))
    # Whoever may alter a table chooses its location.
    path = Path(normalised(table.refresh().metadata_location))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"location": other.location()}))
    for hour in (5, 5, 5, 6, 7, 8):
        lab.append(table.refresh(), hour)
    before = sorted(home.rglob("*"))
    lab.ahead_ms += 600_000
    settle(service)
    service.stop()

    assert sorted(home.rglob("*")) == before
    refused = {action for action, _, reason in ends_of(service, table) if reason == Reason.LOCATION}
    assert refused == {Action.COMPACT, Action.EXPIRE}
    assert "is another table's folder" in of(lab, seen.JobEnded)[-1].why


HOME, OTHER = "s3://lake/hr/salaries", "s3://lake/shop/orders"


class Loaded:
    """What is asked of a table."""

    def __init__(self, location, **properties):
        self.table = type("Table", (), {"uuid": "mine"})
        self.facts = type("Facts", (), {"location": location, "properties": properties})


def of_paths(*paths):
    return [LiveFile(path, FileKind.DATA, 1, 1, 1) for path in paths]


@pytest.mark.parametrize(
    ("places", "location", "properties", "read", "said"),
    [
        ([], OTHER, {}, f"{OTHER}/data/a", ""),
        ([("mine", OTHER)], OTHER, {}, "s3a://lake/elsewhere/a", ""),
        ([("his", HOME), ("mine", OTHER)], OTHER, {}, f"{HOME}/data/a", "another table's folder"),
        ([("his", HOME), ("mine", OTHER)], OTHER, {}, "s3a://lake/hr/salaries/data/d=1/a", "it names"),
        ([("his", HOME), ("mine", HOME)], HOME, {}, f"{HOME}/data/a", "its location"),
        ([("his", HOME)], f"{HOME}/", {}, f"{HOME}/data/a", "its location"),
        (
            [("his", HOME), ("mine", OTHER)],
            OTHER,
            {"write.data.path": f"{HOME}/data/x"},
            "",
            "write.data.path",
        ),
        # He who came later keeps nobody out.
        ([("mine", OTHER), ("his", OTHER)], OTHER, {}, f"{OTHER}/data/a", ""),
        # A folder above another table's is no right to what lies there.
        ([("his", HOME), ("mine", "s3://lake/hr")], "s3://lake/hr", {}, f"{HOME}/data/a", "it names"),
        # `a.b` lies in the folder of `a`, but in none that Iceberg makes.
        (
            [("his", "s3://lake/a"), ("mine", "s3://lake/a/b")],
            "s3://lake/a/b",
            {},
            "s3://lake/a/b/data/x",
            "",
        ),
    ],
)
def test_who_was_seen_first_in_a_folder_has_it(places, location, properties, read, said):
    fold, ledger = Fold(None), Ledger(None)
    for uuid, place in places:
        ledger.place(uuid, place)
    found = trespass(fold, ledger, Loaded(location, **properties), of_paths(read) if read else ())

    assert (found is None) == (not said)
    assert said in str(found or "")
    ledger.left("his")
    assert trespass(fold, ledger, Loaded(location, **properties), of_paths(read) if read else ()) is None


def test_a_folder_of_a_table_that_was_followed_and_is_no_more_is_free():
    fold, ledger = Fold(None), Ledger(None)
    ledger.place("his", HOME)
    assert trespass(fold, ledger, Loaded(HOME)) is not None
    ledger.see("his", 0, 1)
    assert trespass(fold, ledger, Loaded(HOME)) is None
