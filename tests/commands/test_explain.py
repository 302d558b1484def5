"""What `explain` says of a rest, held against what the planner decides."""

from dataclasses import replace

import pytest

from isotherm.commands.explain import explained, rest_conditions
from isotherm.commands.inspector import Inspector
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import Resolved
from isotherm.runtime.config import load_config
from support.builders import HOUR, MIB, NOW, key, partition, view
from support.lab import Lab
from support.worked import configured

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
    [(FileKind.EQUALITY_DELETES, 12, Verdict.RESTING), (FileKind.POSITION_DELETES, 19, Verdict.CLEAN)],
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


def test_a_limit_comes_from_where_the_trigger_that_speaks_has_it(tmp_path):
    policy = (
        'tables: "*"\nexpire: {keep_for: 0s, keep_last: 2, at_latest: 0s, delete_after: 0s}\n'
        "override: [expire.keep_for, expire.keep_last, expire.delete_after]\n"
        'work: {windows: [{cron: "0 0 29 2 *", lasts: 1m}]}\n'
    )
    lab = Lab(tmp_path, policy=policy)
    table = lab.create()
    for hour in (1, 2, 3, 4):
        lab.append(table, hour)
    lab.settled().stop()
    inspector = Inspector(load_config(configured(lab)))
    conditions = explained(inspector, "shop.orders", None, lab.now_ms()).conditions
    (expire,) = (one for one in conditions if one.name == "expire")

    assert "0s at the latest" in expire.text
    assert expire.origin == "all.yaml"


def test_what_a_policy_switches_off_says_which_file_does(tmp_path):
    policy = 'tables: "*"\nexpire: {enabled: false}\nmetadata: {enabled: false}\norphans: {mode: off}\n'
    lab = Lab(tmp_path, policy=policy)
    lab.append(lab.create(), 1)
    lab.settled().stop()
    inspector = Inspector(load_config(configured(lab)))
    conditions = explained(inspector, "shop.orders", None, lab.now_ms()).conditions
    off = {one.name: (one.text, one.origin) for one in conditions if one.word == Verdict.OFF}

    assert off == {
        "expire": ("0.00 of 1: the policy does not expire snapshots of this table", "all.yaml"),
        "trim metadata": ("0.00 of 1: old metadata.json files of this table are left alone", "all.yaml"),
        "remove orphans": ("0.00 of 1: the policy does not look for orphans", "all.yaml"),
    }


def test_what_is_due_says_since_when_it_waits_and_who_comes_before_it(tmp_path):
    lab = Lab(
        tmp_path,
        policy='tables: "*"\ncold: {after: 1, quiet_for: 0s, quiet_commits: 2}\ncompact: {min_files: 3}\n',
    )
    tables = [lab.create("shop.orders"), lab.create("shop.others")]
    for hour in (1, 1, 1, 2, 2, 2, 2, 2, 2, 9, 9, 9, 9):
        for table in tables:
            lab.append(table, hour)
    service = lab.service()
    service.start()
    service.consume(service.events.poll(0))
    for table in tables:
        service.follower.confirm(".".join(table.name()))
        row = service.fold.table(str(table.metadata.table_uuid))
        service.verdicts.decide(row, ())
    service.stop()
    lab.ahead_ms += 2 * HOUR
    inspector = Inspector(load_config(configured(lab)))

    def turn(partition):
        conditions = explained(inspector, "shop.orders", partition, lab.now_ms()).conditions
        return [one.text for one in conditions if one.name == "turn"]

    (first,), (second,) = turn("at_hour=2026-01-01-02"), turn("at_hour=2026-01-01-01")
    assert first.startswith("due since ")
    assert first.endswith(", for 2h; the first of its table; 1 other table waits too")
    assert second.endswith(", for 2h; 1 partition of this table before it; 1 other table waits too")
    assert turn("at_hour=2026-01-01-09") == []
