"""When the deletes of a partition are due, and whether a job merges, converts or applies them."""

from dataclasses import replace

import pytest

from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Compact, Policy
from support.builders import DAY, GIB, MIB, MINUTE, NOW, facts, files, key, partition, view
from support.planned import POLICY


def test_deletes_are_merged_whatever_data_is_to_be_sorted_by():
    state = replace(partition(4, GIB), deletes={FileKind.POSITION_DELETES: FileStats(200, 20, 9)})
    world = view({key(1): state}, facts=facts(sortable=("at",)))
    decision = plan(world, Policy(compact={"sort": "region"}), NOW).of_partitions[0]

    assert (decision.verdict, decision.take.rewrites_data) == (Verdict.DUE, False)


def test_vectors_are_applied_with_their_data():
    state = replace(partition(4, 128 * MIB), deletes={FileKind.DELETION_VECTORS: FileStats(4, 2000, 400)})
    decision = plan(view({key(1): state}, facts=facts(format_version=3)), POLICY, NOW).of_partitions[0]

    assert decision.verdict is Verdict.DUE
    assert decision.why.startswith("cold and due: 2000 delete rows on 400 rows, limit 33%")
    assert decision.take.with_deletes


def test_a_vector_for_each_data_file_is_no_reason_to_rewrite_them_unless_the_policy_says_so():
    state = replace(partition(800, 128 * MIB), deletes={FileKind.DELETION_VECTORS: FileStats(800, 2000, 400)})
    world = view({key(1): state}, facts=facts(format_version=3))
    policies = Policy(), Policy(compact=Compact(max_deletion_vectors=100))

    found = [plan(world, policy, NOW).of_partitions[0] for policy in policies]

    assert [one.verdict for one in found] == [Verdict.CLEAN, Verdict.DUE]
    assert "800 of 100 deletion vectors" in found[1].why


@pytest.mark.parametrize("version", [2, 3])
def test_in_version_3_nobody_writes_new_position_deletes(version):
    """What was written before is applied, once it is many."""
    some, many = (
        replace(partition(4, GIB), deletes={FileKind.POSITION_DELETES: FileStats(files, 20, 9)})
        for files in (20, 200)
    )
    world = view({key(1): some, key(2): many}, facts=facts(format_version=version))
    found = plan(world, Policy(), NOW).of_partitions

    assert [one.verdict is Verdict.DUE for one in found] == [version == 2, True]
    assert found[1].take.merges_deletes is (version == 2)
    assert found[1].take.with_deletes is (version == 3)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (
            FileKind.EQUALITY_DELETES,
            "12 of 10 equality-delete files, 500 rows in them; at most 22 files, 10.0 MiB to rewrite",
        ),
        (
            FileKind.DELETION_VECTORS,
            "500 delete rows on 1000 rows, limit 33%; at most 22 files, 10.0 MiB to rewrite",
        ),
    ],
)
def test_each_kind_of_delete_has_its_own_debt(kind, why):
    state = replace(partition(10), deletes={kind: FileStats(12, 500, 9)})
    policy = Policy(compact=Compact(min_files=100))

    assert plan(view({key(1): state}), policy, NOW).of_partitions[0].why.endswith(why)


@pytest.mark.parametrize(("ratio", "said"), [(0.33, "33%"), (0.015, "1.5%"), (0.004, "0.4%"), (2, "200%")])
def test_the_limit_of_delete_rows_is_told_as_the_policy_says_it(ratio, said):
    state = replace(partition(1), deletes={FileKind.POSITION_DELETES: FileStats(1, 1, 9)})
    policy = Policy(compact=Compact(max_delete_ratio=ratio))

    assert (
        f"1 delete rows on 100 rows, limit {said}"
        in plan(view({key(1): state}), policy, NOW).of_partitions[0].why
    )


def test_equality_deletes_are_applied_where_somebody_else_rewrites_files_too():
    """Their rewrite may be open: what is made of the deletes would not apply to what it writes."""
    deletes = {FileKind.EQUALITY_DELETES: FileStats(70, 70_000, MIB)}
    state = PartitionState(files(40, 128 * MIB, rows=10**6), deletes, last_write_at_ms=NOW - 16 * MINUTE)
    (alone,) = plan(view({key(1): state}), Policy(), NOW).of_partitions
    (beside,) = plan(view({key(1): state}, facts=facts(rewritten_in=7)), Policy(), NOW).of_partitions

    short = facts(watched_since_ms=NOW - DAY)
    (unknown,) = plan(view({key(1): state}, facts=short), Policy(), NOW).of_partitions

    assert (alone.take.converts_equality, alone.take.with_deletes) == (True, False)
    assert (unknown.take.converts_equality, unknown.take.with_deletes) == (False, True)
    assert "they are not made into position deletes, because its commits are known since" in unknown.why
    assert (beside.take.converts_equality, beside.take.with_deletes) == (False, True)
    assert beside.why.endswith(
        "rewrites files of this table too (snapshot 7) and could bring deleted rows back"
    )
