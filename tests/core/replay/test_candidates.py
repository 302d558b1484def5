"""The laws of what is tried on a table's history: each candidate is a policy that a file can say."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.policy.cold_after import LEARNED
from isotherm.core.policy.diff import policy_changes
from isotherm.core.policy.policy import Cold, Compact, Policy
from isotherm.core.replay.candidates import SINGLE, Candidate, beside, changed, near, together
from support.builders import DAY, HOUR
from support.nights import NIGHTLY
from workloads.updates import buckets, keyed_upserts, mirror_uniform

WHOLE = st.integers(1, 2000)
SPANS = st.integers(0, 20 * DAY)
AFTERS = SPANS.map(lambda span_ms: timedelta(milliseconds=span_ms))


@st.composite
def policies(draw):
    """Any policy, also at its bounds."""
    cold = Cold().model_copy(
        update={
            "after": draw(st.one_of(st.just(LEARNED), st.just(0.0), st.floats(0, 100), AFTERS)),
            "quiet_for": draw(SPANS),
            "quiet_commits": draw(st.integers(0, 50)),
            "silent_for": draw(SPANS),
            "late_write_risk": draw(st.floats(0.0001, 1)),
        }
    )
    compact = Compact().model_copy(
        update={
            "min_files": draw(st.integers(2, 100)),
            "rest": draw(SPANS),
            "max_position_deletes": draw(WHOLE),
            "max_deletion_vectors": draw(WHOLE),
        }
    )
    return Policy().model_copy(update={"cold": cold, "compact": compact})


@given(policies(), st.sampled_from([NIGHTLY, mirror_uniform(0.1), buckets(0.02)]))
def test_every_candidate_is_a_policy_that_a_file_can_say(policy, history):
    found = near(policy, history)

    assert len(found) <= SINGLE
    assert len({one.name for one in found}) == len(found)
    for one in (*found, *together(policy, found)):
        changes = policy_changes(policy, one.policy)
        said = Policy.model_validate(_as_a_file_says(one, changes))

        assert {change.field for change in changes} == one.changes.keys()
        assert not policy_changes(one.policy, _with(policy, said, changes))


def _as_a_file_says(candidate, changes):
    sections = {}
    for change in changes:
        section, name = change.field.split(".")
        value = candidate.changes[change.field]
        said = value if isinstance(value, float) else change.after
        said = value if isinstance(value, int) and not change.after[-1].isalpha() else said
        sections.setdefault(section, {})[name] = said
    return sections


def _with(policy, said, changes):
    for change in changes:
        section, name = change.field.split(".")
        held = getattr(policy, section).model_copy(update={name: getattr(getattr(said, section), name)})
        policy = policy.model_copy(update={section: held})
    return policy


@pytest.mark.parametrize(
    ("history", "tried_", "not_tried"),
    [
        (NIGHTLY, "cold.after", "compact.max_position_deletes"),
        (mirror_uniform(0.1), "compact.max_position_deletes", "compact.max_deletion_vectors"),
        (buckets(0.02), "cold.quiet_for", "cold.after"),
        (keyed_upserts(0.1), "compact.max_equality_deletes", "compact.max_position_deletes"),
    ],
)
def test_only_what_the_history_can_show_is_tried(history, tried_, not_tried):
    fields = {field for one in near(Policy(), history) for field in one.changes}

    assert tried_ in fields
    assert not_tried not in fields


def test_a_policy_at_its_bounds_is_tried_in_the_other_direction_alone():
    least = Policy(compact=Compact(min_files=2), cold=Cold(quiet_for=0, late_write_risk=1))
    names = {one.name for one in near(least, NIGHTLY)}

    assert "min_files 4" in names
    assert not names & {"min_files 1", "min_files 0", "quiet_for 0s", "late_write_risk 1"}


def test_what_is_far_from_the_default_is_tried_with_it_too():
    far = Policy(compact=Compact(min_files=2000), cold=Cold(after=40))
    names = [one.name for one in near(far, NIGHTLY)]

    assert [name for name in names if "min_files" in name] == [
        "min_files learned",
        "min_files 1000",
        "min_files 500",
    ]
    # Whoever interrupts the search has seen them.
    assert names[:2] == ["after learned", "min_files learned"]


def test_what_pays_is_tried_together_the_best_of_each_field():
    after, files, fewer, rest = (
        changed(Policy(), one)
        for one in (
            {"cold.after": 0},
            {"compact.min_files": 5},
            {"compact.min_files": 10},
            {"compact.rest": HOUR},
        )
    )
    names = [one.name for one in together(Policy(), [after, files, fewer, rest])]

    assert names == ["after 0, min_files 5", "after 0, min_files 5, rest 1h"]
    assert together(Policy(), [files, fewer]) == ()
    assert together(Policy(), []) == ()


def test_what_had_no_effect_by_itself_is_tried_on_the_best():
    best, other, same, none = (
        changed(Policy(), one)
        for one in (
            {"compact.min_files": 5},
            {"cold.after": 0},
            {"compact.min_files": 10},
            {"compact.rest": HOUR},
        )
    )
    names = [one.name for one in beside(Policy(), best, [other, same, none])]

    assert names == ["min_files 5, after 0", "min_files 5, rest 1h"]
    assert beside(Policy(), Candidate("now", Policy(), {}), [other]) == ()


def test_a_name_says_what_differs():
    two = changed(Policy(), {"cold.after": 0, "compact.rest": 6 * HOUR})

    assert two.name == "after 0, rest 6h"
    assert changed(Policy(), {"cold.after": LEARNED}) is None
