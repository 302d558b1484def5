"""Windows that writers grant: asked for where nothing else helps, and nothing hot is due outside of one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.events import Intent, OpenWindow
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.job_limits import job_ms
from isotherm.core.model.windows import Grant
from isotherm.core.model.writers import UNHEARD, Word
from isotherm.core.planner.coldness import findings, first_hot
from isotherm.core.planner.granted import LOOK_AGAIN_MS
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Compact, Policy
from support.builders import (
    BUCKETS,
    DAY,
    HOUR,
    MIB,
    MINUTE,
    NOW,
    SECOND,
    TABLE,
    facts,
    key,
    partition,
    table_state,
    view,
)
from support.drawn_views import maintained, policies

ASKING = Policy(compact=Compact(min_files=4, ask_writer="60s"))
SHOP = Word("shop", NOW - MINUTE, OpenWindow(), grants=True)
GRANT = Grant("w-1", ("shop",), NOW + 50 * SECOND, foreign_commits=100)


def bucket(files=10, *, size=MIB, begun_ms=NOW - 2 * DAY, written_ms=NOW - MINUTE, **fields):
    """A bucket that is written all the time."""
    written = partition(files, size, last_write_at_ms=written_ms, number=100)
    return replace(written, first_write_at_ms=begun_ms, **fields)


def table(one=None, *, words=(SHOP,), grants=(), intents=(), commits=100, **fields):
    """A table with a hot bucket."""
    fields.setdefault("facts", facts(fields=BUCKETS))
    state = table_state(foreign_commits=commits)
    made = view({key(1): one or bucket()}, state=state, words=words, intents=intents, **fields)
    return replace(made, around=replace(made.around, grants=tuple(grants)))


def decided(made, policy=ASKING, now_ms=NOW):
    (decision,) = plan(made, policy, now_ms).of_partitions
    return decision


def test_the_writer_of_what_never_cools_is_asked():
    decision = decided(table())

    assert (decision.verdict, decision.asks, decision.window_id) == (Verdict.HOT, True, "")
    assert decision.why.endswith("; its writer shop is asked for a window of 1m (compact.ask_writer)")
    assert plan(table(), ASKING, NOW).requests == ()


def test_without_the_policy_nobody_is_asked():
    decision = decided(table(), Policy(compact=Compact(min_files=4)))

    assert (decision.verdict, decision.asks) == (Verdict.HOT, False)
    assert "window" not in decision.why


FOREIGN = Word("spark", NOW - 20 * HOUR, OpenWindow())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no writer that grants any was heard of for 1d"),
        ((replace(SHOP, at_ms=NOW - DAY),), "no writer that grants any was heard of for 1d"),
        ((SHOP, FOREIGN), "the writer spark wrote 20h ago, and grants none"),
        ((replace(SHOP, is_unreadable=True),), "the writer shop wrote 1m ago, and grants none"),
    ],
)
def test_beside_a_writer_that_grants_none_nobody_is_asked(words, why):
    decision = decided(table(words=words))

    assert not decision.asks
    assert decision.why.endswith(f"; no window is asked for: {why}")
    assert decision.wake.at_ms <= NOW + LOOK_AGAIN_MS


def unheard(pipeline, minutes):
    return Word(UNHEARD + pipeline, NOW - minutes * MINUTE, OpenWindow())


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ((SHOP, unheard("shop", 2)), True),  # its event came a minute ago
        ((replace(SHOP, at_ms=NOW - 5 * MINUTE), unheard("shop", 2)), False),
        ((SHOP, unheard("web", 2)), False),  # another one's event says nothing of it
        ((SHOP, unheard("web", 2), Word("web", NOW - MINUTE, OpenWindow(), grants=True)), True),
        ((SHOP, unheard("web", 2), Word("web", NOW - MINUTE, OpenWindow())), False),
    ],
)
def test_an_ingest_whose_event_has_not_come_yet_counts_until_that_ingest_has_spoken(words, asks):
    assert decided(table(words=words)).asks is asks


def test_a_writer_that_grants_none_and_left_long_ago_is_nobody():
    assert decided(table(words=(SHOP, replace(FOREIGN, at_ms=NOW - DAY)))).asks


@pytest.mark.parametrize(
    ("one", "asks"),
    [
        (bucket(3), False),  # it owes nothing
        (bucket(begun_ms=NOW - 23 * HOUR), False),  # its stream may leave it by itself
        (bucket(90, begun_ms=NOW - 23 * HOUR), True),  # it owes too much to wait
        (bucket(begun_ms=None), True),
        (bucket(compacted_at_ms=NOW - 23 * HOUR), False),  # it rests
        (bucket(compacted_at_ms=NOW - 25 * HOUR), True),
    ],
)
def test_it_is_asked_for_once_the_partition_has_waited_as_long_as_it_would_rest(one, asks):
    assert decided(table(one)).asks is asks


def test_it_says_until_when_it_waits():
    decision = decided(table(bucket(begun_ms=NOW - 23 * HOUR)))

    assert decision.why.endswith("; no window is asked for yet: it is written for 23h of 1d (compact.rest)")
    assert decision.wake.at_ms <= NOW + HOUR


@pytest.mark.parametrize(
    "made",
    [table(halted="a person must look"), table(facts=facts(fields=BUCKETS, unsupported="version 1"))],
)
def test_nobody_is_asked_where_a_window_would_not_help(made):
    assert not decided(made).asks


def test_in_a_window_what_is_hot_is_due():
    decision = decided(table(grants=[GRANT]))

    assert (decision.verdict, decision.window_id, decision.asks) == (Verdict.DUE, "w-1", False)
    assert decision.why.startswith("left alone by the writer shop in window w-1 and due: 10 of 4 files")


@pytest.mark.parametrize(
    "grant",
    [
        replace(GRANT, until_ms=NOW),  # it is over
        replace(GRANT, foreign_commits=99),  # somebody wrote since
        replace(GRANT, partitions=frozenset({key(2)})),  # it is of another partition
    ],
)
def test_outside_of_its_window_what_is_hot_stays_so(grant):
    assert decided(table(grants=[grant])).verdict is Verdict.HOT


def test_an_intent_is_heard_in_a_window_too():
    intent = Intent(
        table_uuid=TABLE.uuid,
        table=TABLE.name,
        intent_id="i",
        writer="shop",
        state="open",
        at_ms=NOW,
        expires_at_ms=NOW + MINUTE,
    )

    assert decided(table(grants=[GRANT], intents=[intent])).verdict is Verdict.HOT


def test_what_is_cold_anyway_belongs_to_no_window():
    old = bucket(written_ms=NOW - 2 * HOUR)
    decision = decided(table(old, grants=[GRANT]))

    assert (decision.verdict, decision.window_id) == (Verdict.DUE, "")


@pytest.mark.parametrize("files", [100, 1000])
def test_a_job_in_a_window_reads_what_fits_into_it(files):
    decision = decided(table(bucket(files, size=40 * MIB), grants=[GRANT]))

    assert decision.verdict is Verdict.DUE
    assert job_ms(decision.bytes) <= GRANT.until_ms - NOW


def test_what_does_not_fit_into_the_rest_of_a_window_waits():
    grant = replace(GRANT, until_ms=NOW + 11 * SECOND)
    decision = decided(table(bucket(10, size=90 * MIB), grants=[grant]))

    assert decision.verdict is Verdict.WAITING
    assert "the window that its writers grant is open for another 11s" in decision.why


def test_the_conditions_say_who_leaves_it_alone():
    found = findings(key(1), bucket(), table(grants=[GRANT]).around, ASKING.cold, NOW)

    assert [(one.rule, one.is_hot) for one in found] == [("intent", False), ("grant", False)]
    assert found[1].why == "the writer shop leaves it alone for another 50s (window w-1)"


GRANTS = st.builds(
    Grant,
    st.just("w-1"),
    st.just(("shop",)),
    st.integers(NOW - MINUTE, NOW + 5 * MINUTE),
    st.sampled_from([100, 100, 99]),
    st.one_of(st.none(), st.frozensets(st.integers(0, 1200).map(key), max_size=4)),
)


@given(maintained(), policies(), GRANTS)
def test_nothing_hot_is_due_without_an_open_window_that_names_it(world, policy, grant):
    """And what is due in one ends within it, and no open intent names it."""
    granted = replace(world, around=replace(world.around, grants=(grant,)))
    before = {one.partition: one for one in plan(world, policy, NOW).of_partitions}

    for decision in plan(granted, policy, NOW).of_partitions:
        name = decision.partition
        hot = first_hot(name, world.partitions[name], world.around, policy.cold, NOW)
        if decision.window_id:
            assert hot is not None
            assert grant.until_ms > NOW
            assert grant.foreign_commits == world.around.state.foreign_commits
            assert grant.partitions is None or name in grant.partitions
            assert hot.rule != "intent"
            if decision.verdict is Verdict.DUE:
                assert job_ms(decision.bytes) <= grant.until_ms - NOW
        else:
            assert decision == before[name]


@given(maintained(), policies(), st.sampled_from([15_000, 60_000, 600_000]))
def test_asking_changes_no_verdict(world, policy, length_ms):
    """Whoever may be asked, the same partitions are due."""
    asking = policy.model_copy(
        update={"compact": policy.compact.model_copy(update={"ask_writer": length_ms})}
    )

    def verdicts(chosen):
        return [(one.partition, one.verdict) for one in plan(world, chosen, NOW).of_partitions]

    assert verdicts(policy) == verdicts(asking)
