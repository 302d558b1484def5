"""The daemon, `explain`, `plan`, `policy test` and `simulate` say the same of the same partition."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.commands.explain import explained
from isotherm.commands.inspector import Inspector
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import bucket_bounds
from isotherm.core.planner.run_policy_tests import decision_on
from isotherm.core.policy.policy_test_case import Case
from isotherm.core.replay.replay import replay
from isotherm.core.units import MINUTE_MS, span_written
from isotherm.runtime.config import load_config
from support.examples import examples
from support.lab import Lab, started
from support.worked import configured

POLICY = """
tables: "*"
cold: {{after: {after}, quiet_for: {quiet_for}, quiet_commits: {quiet_commits}, late_write_risk: 1}}
compact: {{min_files: {min_files}}}
expire: {{enabled: false}}
"""
POLICIES = st.fixed_dictionaries(
    {
        "after": st.sampled_from(["0", "1", "90m"]),
        "quiet_for": st.sampled_from(["0s", "10m"]),
        "quiet_commits": st.integers(0, 4),
        "min_files": st.sampled_from(["2", "4", "learned"]),
    }
)
COMMITS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True), min_size=1, max_size=14)
"""The hours that each commit writes to."""
PASSED_MS = st.sampled_from([MINUTE_MS, 5 * MINUTE_MS, 11 * MINUTE_MS, 25 * 60 * MINUTE_MS])


def case_of(view, key, label, at_ms):
    """What a person would write of this partition into the `tests:` of a policy."""
    state, partition = view.around.state, view.partitions[key]
    return Case(
        name="as it is",
        at=moment(at_ms),
        partition=label.partition("=")[2],
        files=[f"{one.files} of {bucket_bounds(bucket)[0]}B" for bucket, one in partition.data.items()],
        last_write=f"{span_written(at_ms - partition.last_write_at_ms)} ago",
        commits_since=state.foreign_commits - partition.last_write_number,
        appended=True,
        boundary=moment(state.boundary_ms),
        expect=Verdict.DUE,
    )


def moment(at_ms):
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


@examples(12)
@given(COMMITS, POLICIES, PASSED_MS)
def test_all_programs_say_the_same_of_a_partition(commits, limits, passed_ms):
    with TemporaryDirectory() as folder:
        agree(folder, commits, POLICY.format(**limits), passed_ms)


@pytest.mark.parametrize("min_files", ["learned", "21"])
def test_they_agree_on_what_was_learned(tmp_path, min_files):
    limits = {"after": "0", "quiet_for": "0s", "quiet_commits": 0, "min_files": min_files}

    found = agree(tmp_path, [*[[1]] * 20, [2]], POLICY.format(**limits), 60 * MINUTE_MS)

    assert found[0] is (Verdict.DUE if min_files == "learned" else Verdict.CLEAN)


def agree(folder, commits, policy, passed_ms):
    """The verdicts of the daemon, once all others have said the same."""
    lab = Lab(Path(folder), policy=policy)
    table = lab.create()
    for hours in commits:
        lab.append(table, *hours)
    service = started(lab)
    service.consume(service.events.poll(0))
    service.follower.confirm("shop.orders")
    uuid = str(table.metadata.table_uuid)
    lab.ahead_ms += passed_ms
    at_ms = lab.now_ms()
    service.verdicts.decide(service.fold.table(uuid), ())
    said = {one.key: one.verdict for one in service.fold.partitions(uuid)}
    service.stop()
    inspector = Inspector(load_config(configured(lab)))
    (planned,) = inspector.plans("shop.orders", None, at_ms)
    view = inspector.view(inspector.row("shop.orders"))
    rules = inspector.resolved("shop.orders", None).policy
    lived = replay(
        inspector.history("shop.orders", 0, at_ms, lambda _: None),
        rules,
        replace(inspector.assumed("shop.orders", 1000), jobs_at_once=100),
    )

    assert {one.partition: one.verdict for one in planned.of_partitions} == said
    for one in planned.of_partitions:
        assert explained(inspector, "shop.orders", one.label, at_ms).verdict is one.verdict
        assert decision_on(case_of(view, one.partition, one.label, at_ms), rules).verdict is one.verdict
    assert {job.partition for job in lived.jobs} == {
        key for key, verdict in said.items() if verdict is Verdict.DUE
    }
    return list(said.values())
