"""What `explain` and `simulate` say of workloads fits a terminal of 80 columns, and nothing of it is cut off."""

from io import StringIO

import pytest
import yaml
from rich.console import Console

from isotherm.commands.explain import explained, print_explanation
from isotherm.commands.inspector import Inspector
from isotherm.commands.simulate import compared, print_simulation
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.tables import Snapshot
from isotherm.core.planner.plan import plan
from isotherm.core.state import apply, built
from isotherm.runtime.config import IsothermConfig
from isotherm.store import Fold, Ledger
from support.builders import TABLE
from workloads.catalogue import WORKLOADS
from workloads.measuring import ASSUMED, EXAMPLES, policy_of

COLUMNS = 80
CASES = (("hourly_late", "hourly_events"), ("mirror_zipf", "mirror"), ("buckets", "buckets"))


def folded(history):
    """The state and the partitions of a table that nobody has maintained, at the end of a history."""
    partitions = dict(history.partitions)
    state = built(TABLE, partitions, None, boundary_ms=None, foreign_commits=0)
    for one in history.recorded:
        applied = apply(state, partitions, one.change, history.facts.fields, one.received_at_ms)
        state = applied.state
        partitions.update(applied.partitions)
    return state, partitions


def stores_of(history, example, root):
    """A daemon's stores as they are at the end of a history that it has followed and not touched."""
    state, partitions = folded(history)
    log = [
        Snapshot(one.change.snapshot_id, one.change.sequence_number, one.received_at_ms)
        for one in history.recorded
    ]
    Ledger(root / "ledger.db").close()
    fold = Fold(root / "fold.db")
    fold.replace(state, history.facts, partitions, log)
    fold.close()
    policies = root / "policies"
    policies.mkdir()
    policy = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())
    del policy["tests"]
    (policies / "all.yaml").write_text(yaml.safe_dump({**policy, "tables": TABLE.name}))
    return IsothermConfig.model_validate(
        {
            "catalog": {"properties": {}},
            "kafka": {"properties": {"bootstrap.servers": "127.0.0.1:1"}},
            "state": {"path": root},
            "policies": policies,
        }
    )


def printed(show, *values):
    out = Console(file=StringIO(), width=COLUMNS)
    show(*values, out)
    text = out.file.getvalue()
    assert text
    return text


def assert_that_it_fits(text):
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
    # What rich cuts off ends so.
    assert "…" not in text


@pytest.mark.parametrize(("name", "example"), CASES)
def test_each_kind_of_verdict_is_explained_in_80_columns(name, example, tmp_path):
    history = WORKLOADS[name].make(1)
    inspector = Inspector(stores_of(history, example, tmp_path))
    view = inspector.view(inspector.row(TABLE.name))
    decisions = plan(view, policy_of(example), history.ends_at_ms).of_partitions
    of_each_kind = {one.verdict: one for one in decisions}

    assert Verdict.HOT in of_each_kind
    for decision in of_each_kind.values():
        said = explained(inspector, TABLE.name, decision.label, history.ends_at_ms)
        text = printed(print_explanation, said)
        assert said.verdict is decision.verdict
        assert_that_it_fits(text)
        assert {"boundary", "quiet", "lateness", "min_files"} <= {
            line.split(" ")[0] for line in text.splitlines()
        }
    assert_that_it_fits(
        printed(print_explanation, explained(inspector, TABLE.name, None, history.ends_at_ms))
    )


@pytest.mark.parametrize(("name", "example"), CASES)
def test_two_policies_are_compared_in_80_columns(name, example):
    history = WORKLOADS[name].make(1)
    policies = [("in force", policy_of(None)), (f"{example}.yaml", policy_of(example))]

    text = printed(print_simulation, compared(history, policies, ASSUMED, Console(file=StringIO())))

    assert_that_it_fits(text)
    assert "write amplification" in text
