"""Whether a file in quarantine goes for good, stays, or comes back."""

import pytest

from isotherm.contract.paths import folder
from isotherm.core.deletion import Cause, Finding, Mark, Neighbours, held_by, own_folders
from support.judged import HOME, OWN, SEEN, found

QUARANTINED = Mark(f"{HOME}/_isotherm_quarantine/j1/data/x/a.parquet", "j1", Cause.QUARANTINED, SEEN)


MEASURED = {"sizes": {QUARANTINED.path: {7}}, "in_quarantine": {QUARANTINED.path: 7}}


@pytest.mark.parametrize(
    ("changes", "finding", "reason"),
    [
        ({}, Finding.GO, "unreached"),
        ({"young": {QUARANTINED.path}}, Finding.WAIT, "not_over"),
        ({"names": {"a.parquet"}}, Finding.RESTORE, "needed_again"),
        ({"names": {"a.parquet"}, "young": {QUARANTINED.path}}, Finding.RESTORE, "needed_again"),
        # Somebody has added it where it lies now: it would be lost to him where it was.
        ({"names": {"a.parquet"}, "moved_names": {"a.parquet"}}, Finding.KEEP, "reached"),
        # That was another one of this name: this one is needed.
        (
            {
                "names": {"a.parquet"},
                "moved_names": {"a.parquet"},
                "named_at_origin": {QUARANTINED.path},
                **MEASURED,
            },
            Finding.RESTORE,
            "needed_again",
        ),
        # To put it back deletes nothing, so nothing that holds back deletions holds that back.
        ({"names": {"a.parquet"}, "gc_enabled": False}, Finding.RESTORE, "needed_again"),
        ({"names": {"a.parquet"}, "seen_through": 13}, Finding.RESTORE, "needed_again"),
        # By their sizes, what lies where it was is what the table names, or is not, or this one is not.
        ({"names": {"a.parquet"}, **MEASURED}, Finding.RESTORE, "needed_again"),
        ({"names": {"a.parquet"}, **MEASURED, "at_origin": {QUARANTINED.path: 7}}, Finding.GO, "unreached"),
        ({"names": {"a.parquet"}, "at_origin": {QUARANTINED.path: 7}}, Finding.GO, "unreached"),
        (
            {
                "names": {"a.parquet"},
                **MEASURED,
                "at_origin": {QUARANTINED.path: 7},
                "young": {QUARANTINED.path},
            },
            Finding.WAIT,
            "not_over",
        ),
        (
            {"names": {"a.parquet"}, **MEASURED, "at_origin": {QUARANTINED.path: 7}, "gc_enabled": False},
            Finding.WAIT,
            "gc_disabled",
        ),
        (
            {"names": {"a.parquet"}, **MEASURED, "at_origin": {QUARANTINED.path: 8}},
            Finding.WAIT,
            "needed_again",
        ),
        (
            {"names": {"a.parquet"}, **MEASURED, "in_quarantine": {QUARANTINED.path: 8}},
            Finding.WAIT,
            "needed_again",
        ),
        # The table has its files of this name in other places, whatever their sizes.
        ({"names": {"a.parquet"}, "elsewhere": {QUARANTINED.path}}, Finding.GO, "unreached"),
        (
            {
                "names": {"a.parquet"},
                "elsewhere": {QUARANTINED.path},
                **MEASURED,
                "at_origin": {QUARANTINED.path: 8},
            },
            Finding.GO,
            "unreached",
        ),
        (
            {"names": {"a.parquet"}, "elsewhere": {QUARANTINED.path}, "young": {QUARANTINED.path}},
            Finding.WAIT,
            "not_over",
        ),
        ({"known_through": 13}, Finding.WAIT, "history_cut"),
        ({"stays": "orphans.mode: report"}, Finding.WAIT, "policy"),
        ({"stays": "orphans.mode: report", "young": {QUARANTINED.path}}, Finding.WAIT, "not_over"),
        ({"stays": "orphans.mode: report", "names": {"a.parquet"}}, Finding.RESTORE, "needed_again"),
        ({"last_sequence_number": None}, Finding.KEEP, "format_1"),
        ({"beside": {Cause.QUARANTINED: "is another history"}}, Finding.WAIT, "other_history"),
    ],
)
def test_a_file_in_quarantine_goes_after_its_time_and_comes_back_where_it_is_needed(changes, finding, reason):
    assert found(QUARANTINED, (), **changes) == (finding, reason)


@pytest.mark.parametrize("names", [(), ("a.parquet",)])
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (f"{HOME}/data/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/data/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/j1/other/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/j1/data/", "spelling"),
        (f"{HOME}/_isotherm_quarantine/j1/../../data/a.parquet", "spelling"),
        (f"{HOME}2/_isotherm_quarantine/j1/data/a.parquet", "elsewhere"),
        ("s3://lake/also/shop/orders/_isotherm_quarantine/j1/data/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/j1/metadata/00003-6f4b.metadata.json", "metadata"),
    ],
)
def test_only_what_was_moved_within_the_tables_own_location_goes_from_a_quarantine_or_back(
    path, reason, names
):
    neighbours = Neighbours(own_folders(HOME, ("s3://lake/also/{namespace}/{name}",), ("shop", "orders")))
    mark = Mark(path, "j1", Cause.QUARANTINED, SEEN)

    assert found(mark, (), neighbours, names=names) == (Finding.KEEP, reason)


@pytest.mark.parametrize("names", [(), ("a.parquet",)])
@pytest.mark.parametrize("others", ["others", "claims"])
@pytest.mark.parametrize("other", ["_isotherm_quarantine", "_isotherm_quarantine/j1", "data", "data/x", ""])
def test_where_another_table_lies_in_a_quarantine_or_where_its_files_were_they_wait(other, others, names):
    neighbours = Neighbours(OWN, **{others: frozenset({folder(f"{HOME}/{other}")})})

    assert found(QUARANTINED, (), neighbours, names=names) == (Finding.WAIT, "other_table")
    assert held_by(QUARANTINED.path, Neighbours(OWN), is_found=True) is None
