"""What a batch takes of each topic: windows, size, and shares that no backlog delays."""

from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.plan.shares import Waiting, Window, batch, divided, is_due, shares

MINUTE = Window(60, 1000)


def waiting(topic, count, window=MINUTE, begun_s=None, **more):
    return Waiting(topic, window, {(topic, 0): (10, 10 + count)}, begun_s, **more)


def test_a_topic_is_read_once_in_each_window():
    assert is_due(waiting("a", 1), 30)
    assert not is_due(waiting("a", 1, begun_s=30), 59)
    assert is_due(waiting("a", 1, begun_s=30), 60)
    assert not is_due(waiting("a", 0), 60)


def test_many_messages_do_not_wait_for_the_window():
    assert not is_due(waiting("a", 999, begun_s=30), 31)
    assert is_due(waiting("a", 1000, begun_s=30), 31)


def test_what_had_no_room_is_due_at_once():
    assert is_due(waiting("a", 1, begun_s=30, has_more=True), 31)


def test_classes_have_windows_of_their_own():
    alerts, history = waiting("alerts", 5, begun_s=1), waiting("history", 5, Window(600, 1000), begun_s=1)

    assert set(batch([alerts, history], 61, 100)) == {("alerts", 0)}
    assert set(batch([alerts, history], 601, 100)) == {("alerts", 0), ("history", 0)}


def test_a_great_backlog_delays_no_other_topic():
    assert batch([waiting("huge", 10_000), waiting("small", 20)], 0, 100) == {
        ("huge", 0): (10, 90),
        ("small", 0): (10, 30),
    }


def test_partitions_share_what_their_topic_takes():
    one = Waiting("a", MINUTE, {("a", 0): (0, 5), ("a", 1): (7, 1000)})

    assert batch([one], 0, 20) == {("a", 0): (0, 5), ("a", 1): (7, 22)}


def test_with_less_room_than_topics_those_that_waited_longest_come_first():
    late = [waiting("a", 5, begun_s=50), waiting("b", 5, begun_s=10), waiting("c", 5)]

    assert set(batch(late, 120, 2)) == {("c", 0), ("b", 0)}


@given(st.lists(st.integers(0, 100), max_size=12), st.integers(0, 300))
def test_shares_are_fair_and_whole(counts, budget):
    wanted = dict(enumerate(counts))
    given_ = shares(wanted, budget)

    assert sum(given_.values()) == min(budget, sum(counts))
    assert all(0 <= given_[name] <= wanted[name] for name in wanted)
    unfilled = [given_[name] for name in wanted if given_[name] < wanted[name]]
    if unfilled:  # whoever did not get all got as much as anybody, but for what cannot be divided
        assert max(given_.values()) - min(unfilled) <= 1


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3)),
        st.tuples(st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
    ),
    st.integers(1, 60),
)
def test_ranges_begin_where_the_topic_goes_on_and_end_where_it_ends(spans, budget):
    topics = {topic for topic, _ in spans}
    unread = {position: (first, first + count) for position, (first, count) in spans.items()}
    each = [Waiting(t, MINUTE, {p: one for p, one in unread.items() if p[0] == t}) for t in topics]
    ranges = batch(each, 0, budget)

    assert sum(end - first for first, end in ranges.values()) == min(
        budget, sum(one.messages for one in each)
    )
    for position, (first, end) in ranges.items():
        assert first == unread[position][0] < end <= unread[position][1]


@given(
    st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), st.integers(0, 50)),
    st.integers(1, 5),
)
def test_tasks_divide_a_batch_without_gap_or_overlap_and_fairly(counts, parts):
    ranges = {one: (7, 7 + count) for one, count in counts.items()}
    divided_up = divided(ranges, parts)

    offsets = [(one, at) for part in divided_up for one, span in part.items() for at in range(*span)]
    assert sorted(offsets) == sorted((one, at) for one, span in ranges.items() for at in range(*span))
    sizes = [sum(end - first for first, end in part.values()) for part in divided_up]
    assert len(sizes) <= parts
    assert all(size == sizes[0] for size in sizes[:-1])
