"""Until when Flink's sink needs a table's history back to its first snapshot: tests/daemon/test_flink.py shows that it does."""

import pytest

from isotherm.core.units import DAY_MS
from isotherm.iceberg.values import loaded_table
from isotherm.iceberg.whole_history import whole_until_ms
from support.lab import Lab

PLACE = {"flink.job-id": "1", "flink.operator-id": "a7", "flink.max-committed-checkpoint-id": "9"}


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def table_of(lab, summaries):
    table = lab.create()
    for said in summaries:
        lab.append(table, 1, announce=False, snapshot_properties=said)
    return table.refresh()


def until_ms(table, version=3, expired=0):
    """The answer, were the table of this format, and had Iceberg's Java expired so many of its snapshots."""
    left = table.metadata.snapshots[expired:]
    return whole_until_ms(table.metadata.model_copy(update={"format_version": version, "snapshots": left}))


@pytest.mark.parametrize("said", ["added-dvs", "added-equality-delete-files"])
def test_a_history_in_which_flink_upserts_is_needed_for_two_weeks_after_its_last_upsert(lab, said):
    table = table_of(lab, [{}, PLACE | {said: "1"}, PLACE | {said: "2"}, PLACE])

    assert until_ms(table) == table.metadata.snapshots[2].timestamp_ms + 14 * DAY_MS


@pytest.mark.parametrize(
    ("summaries", "version"),
    [
        ([], 3),
        ([{}, PLACE | {"added-dvs": "1"}], 2),
        ([{}, PLACE], 3),
        ([{}, PLACE | {"added-dvs": "0"}], 3),
        ([{}, {"added-dvs": "1"}], 3),
    ],
    ids=["empty", "format 2", "Flink appends", "it deletes nothing", "another upserts"],
)
def test_nobody_needs_the_whole_history(lab, summaries, version):
    assert until_ms(table_of(lab, summaries), version) == 0


def test_the_facts_of_a_table_say_it(lab):
    table = table_of(lab, [PLACE | {"added-dvs": "1"}])
    table.metadata = table.metadata.model_copy(update={"format_version": 3})

    assert loaded_table(table, "shop.orders").facts.whole_until_ms == until_ms(table)


def test_a_history_that_was_cut_before_need_not_be_kept(lab):
    table = table_of(lab, [PLACE | {"added-dvs": "1"}] * 3)

    assert until_ms(table, expired=1) == 0
