"""What `explain` says of a rest, held against what the planner decides."""

from dataclasses import replace

import pytest

from isotherm.commands.explain import rest_conditions
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import Resolved
from support.builders import HOUR, MIB, NOW, key, partition, view

CLOSED = Policy.model_validate({"work": {"windows": [{"cron": "0 3 * * *", "lasts": "1h"}]}})


@pytest.mark.parametrize(
    ("policy", "verdict"), [(Policy(), Verdict.DUE), (CLOSED, Verdict.WAITING)], ids=["due", "no window"]
)
def test_a_rest_keeps_nobody_from_a_merge_of_deletes_also_where_something_else_does(policy, verdict):
    state = replace(
        partition(2, 128 * MIB),
        deletes={FileKind.POSITION_DELETES: FileStats(210, 2, MIB)},
        compacted_at_ms=NOW - 2 * HOUR,
        last_write_at_ms=NOW - HOUR,
    )
    world = view({key(1): state})
    decision = plan(world, policy, NOW).of_partitions[0]
    (rest,) = rest_conditions(key(1), world, decision, Resolved(policy), NOW)

    assert decision.verdict is verdict
    assert rest.holds


@pytest.mark.parametrize(
    ("kind", "files", "verdict"),
    [(FileKind.EQUALITY_DELETES, 12, Verdict.RESTING), (FileKind.POSITION_DELETES, 150, Verdict.CLEAN)],
)
def test_a_rest_is_no_less_one_because_the_job_after_it_would_rewrite_no_data(kind, files, verdict):
    state = replace(
        partition(2, 128 * MIB),
        deletes={kind: FileStats(files, 2, MIB)},
        compacted_at_ms=NOW - 2 * HOUR,
        last_write_at_ms=NOW - HOUR,
    )
    world = view({key(1): state})
    decision = plan(world, Policy(), NOW).of_partitions[0]
    (rest,) = rest_conditions(key(1), world, decision, Resolved(Policy()), NOW)

    assert decision.verdict is verdict
    assert (rest.holds, rest.word) == (False, Verdict.RESTING)
