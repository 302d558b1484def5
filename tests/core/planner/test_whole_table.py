"""The verdicts on a table as a whole: its manifests, its metadata files, its orphans."""

import pytest

from isotherm.core.model.decisions import Verdict
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import Unpublished
from isotherm.core.planner.plan import plan
from isotherm.core.policy.precedence import PolicyFile, resolve
from support.builders import DAY, HOUR, MIB, NOW, facts, key, partition, snapshots, table_state, view
from support.planned import POLICY, on_table


@pytest.mark.parametrize(
    ("action", "world", "verdict", "why"),
    [
        pytest.param(
            Action.REWRITE_MANIFESTS,
            {"facts": facts(manifests=450, metadata_bytes=90 * MIB), "state": table_state(partitions=100)},
            Verdict.DUE,
            "450 manifests for 100 partitions, 12 would do (due 100 above that, at 4 to a partition)",
            id="too many manifests",
        ),
        pytest.param(
            Action.REWRITE_MANIFESTS,
            {
                "facts": facts(
                    manifests=450, metadata_bytes=90 * MIB, unsupported="it is of format version 1"
                ),
                "state": table_state(partitions=100),
            },
            Verdict.UNSUPPORTED,
            "due, but it is of format version 1: 450 manifests for 100 partitions, 12 would do "
            "(due 100 above that, at 4 to a partition)",
            id="too many manifests of a table that this version cannot write",
        ),
        pytest.param(
            Action.REWRITE_MANIFESTS,
            {
                "facts": facts(
                    manifests=450, metadata_bytes=90 * MIB, unpublished=(Unpublished("a branch waits", NOW),)
                ),
                "state": table_state(partitions=100),
            },
            Verdict.WAITING,
            "due, but a branch waits: 450 manifests for 100 partitions, 12 would do (due 100 above that, at 4 to a "
            "partition)",
            id="too many manifests beside what waits to be published",
        ),
        pytest.param(
            Action.REWRITE_MANIFESTS,
            {
                "facts": facts(manifests=450, metadata_bytes=90 * MIB, needless_manifests=99),
                "state": table_state(partitions=100),
            },
            Verdict.CLEAN,
            "450 manifests for 100 partitions, 351 would do (due 100 above that, at 4 to a partition)",
            id="many manifests of which no two may become one",
        ),
        pytest.param(
            Action.REWRITE_MANIFESTS,
            {"facts": facts(manifests=20, metadata_bytes=MIB), "state": table_state(partitions=2)},
            Verdict.CLEAN,
            "20 manifests for 2 partitions, 1 would do (due 100 above that, at 4 to a partition)",
            id="few manifests",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"facts": facts(metadata_versions=250)},
            Verdict.DUE,
            "150 of 250 old metadata.json files may go, due at 100",
            id="old metadata",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"snapshots": snapshots(9000), "last_done_ms": {Action.TRIM_METADATA: NOW - 17 * HOUR}},
            Verdict.DUE,
            "as many as 1020 metadata.json files may go since 17h ago, due at 100 once a day, and at 1000 once an hour",
            id="metadata of most of a day",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"snapshots": snapshots(9000), "last_done_ms": {Action.TRIM_METADATA: NOW - 2 * HOUR}},
            Verdict.CLEAN,
            "as many as 120 metadata.json files may go since 2h ago, due at 100 once a day, and at 1000 once an hour",
            id="metadata of two hours",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"snapshots": snapshots(20), "last_done_ms": {Action.TRIM_METADATA: NOW - DAY}},
            Verdict.DUE,
            "as many as 1515 metadata.json files may go since 1d ago, due at 100 once a day, and at 1000 once an hour",
            id="metadata of a table that keeps few snapshots",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"snapshots": snapshots(1000)},
            Verdict.CLEAN,
            "0 of 1000 old metadata.json files may go, due at 100; all are younger than 7d",
            id="metadata of a young table",
        ),
        pytest.param(
            Action.REMOVE_ORPHANS,
            {"snapshots": snapshots(100)},
            Verdict.CLEAN,
            "the table is younger than an orphan must be (3d)",
            id="a young table",
        ),
        pytest.param(
            Action.REMOVE_ORPHANS,
            {"snapshots": snapshots(5000)},
            Verdict.DUE,
            "nobody has looked for orphans yet",
            id="nobody has looked",
        ),
        pytest.param(
            Action.REMOVE_ORPHANS,
            {"last_done_ms": {Action.REMOVE_ORPHANS: NOW - DAY}},
            Verdict.CLEAN,
            "looked for 1d ago, every 7d",
            id="orphans looked for lately",
        ),
    ],
)
def test_the_table_as_a_whole_has_verdicts_too(action, world, verdict, why):
    decision = on_table(plan(view(**world), POLICY, NOW), action)

    assert (decision.verdict, decision.why) == (verdict, why)
    assert len(decision.label) > len("()")


def test_without_its_snapshots_nothing_is_decided_of_the_table():
    planned = plan(view({key(1): partition(10)}, snapshots=None), POLICY, NOW)

    assert planned.of_table == ()
    assert [d.verdict for d in planned.of_partitions] == [Verdict.DUE]


@pytest.mark.parametrize("action", [Action.EXPIRE, Action.REMOVE_ORPHANS, Action.TRIM_METADATA])
def test_a_table_that_forbids_deletions_is_said_to_forbid_them(action):
    """It was laid to the policy, where its owner seeks in vain."""
    gc_disabled = facts(properties={"gc.enabled": "false"})
    resolved = resolve("shop.orders", gc_disabled.properties, [("all.yaml", PolicyFile(tables=["*"]))])

    decision = on_table(plan(view(facts=gc_disabled), resolved.policy, NOW), action)

    assert (decision.verdict, decision.why) == (Verdict.OFF, "gc.enabled is false in the table's properties")
