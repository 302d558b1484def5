"""A commit in a hot partition is kept if a window covers it, as the topic and the history show; else it is a breach."""

from dataclasses import replace

import pytest

from isotherm.audit.evidence import Judged, SaidOfWindow
from isotherm.audit.promises import cold_only
from isotherm.contract.events import WindowClosed, WindowGranted, WindowRequested
from support.audited import FIVE, NINE, history, intent, rewrite, write

BASE = {"table_uuid": "u", "table": "shop.orders", "window_id": "w"}


def asked(at_ms=100_000, partitions=(FIVE,), **more):
    values = {**BASE, "asked_by": "isotherm", "at_ms": 0, "length_ms": 60_000, "partitions": partitions}
    return SaidOfWindow(at_ms, WindowRequested(**(values | more)))


def granted(at_ms=101_000, **more):
    values = {**BASE, "writer": "shop", "at_ms": 0, "length_ms": 60_000, "snapshot_id": 1}
    return SaidOfWindow(at_ms, WindowGranted(**(values | more)))


def closed(at_ms, by="daemon"):
    return SaidOfWindow(at_ms, WindowClosed(**BASE, by=by, at_ms=0))


WRITTEN = write(1, 99_000, FIVE, through_h=5.5)
OURS = replace(rewrite(2, 110_000, FIVE), window_ids=("w",))


def judged(windows, *commits, **more):
    return cold_only(history(*(commits or (WRITTEN, OURS)), windows=tuple(windows), **more))


def test_in_a_window_a_hot_partition_may_be_touched():
    found = judged([asked(), granted(), closed(110_500)])

    assert found.verdict is Judged.PROVED
    assert ", 1 in a window that the writer had granted" in found.why


def test_a_commit_that_names_no_window_is_in_none():
    found = judged([asked(), granted()], WRITTEN, replace(OURS, window_ids=()))

    assert found.verdict is Judged.BROKEN


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        ([], "no window that it names was asked for and granted"),
        ([asked()], "no window that it names was asked for and granted"),
        ([granted()], "no window that it names was asked for and granted"),
        ([asked(), granted(window_id="v")], "no window that it names was asked for and granted"),
        ([asked(partitions=(NINE,)), granted()], "asked for other partitions"),
        ([asked(), granted(112_000)], "granted 2000 ms after it"),
        ([asked(), granted(length_ms=5_000)], "over 4000 ms before"),
        ([asked(), granted(), closed(108_000)], "closed 2000 ms before"),
        ([asked(), granted(), closed(108_000, "writer")], "closed 2000 ms before"),
    ],
)
def test_what_no_window_covers_is_a_breach(windows, why):
    found = judged(windows)

    assert found.verdict is Judged.BROKEN
    assert why in found.evidence[0]


@pytest.mark.parametrize(
    "later",
    [granted(113_000), granted(105_000, length_ms=1), granted(113_000, writer="mallory", length_ms=60_000)],
    ids=["the same again", "a shorter one", "another's, after it"],
)
def test_what_a_writer_says_later_takes_nothing_back(later):
    if later.event.writer == "mallory":
        later = replace(later, at_ms=109_000)

    assert judged([asked(), granted(), later]).verdict is Judged.PROVED


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        ([granted(101_000), asked(105_000)], "no window that it names was asked for and granted"),
        ([asked(length_ms=1_000), granted()], "over 8000 ms before"),
        ([asked(), granted(writer="shop"), granted(112_000, writer="web")], "granted 2000 ms after it"),
    ],
    ids=["granted before it was asked for", "no longer than asked for", "one of two came too late"],
)
def test_a_window_is_what_was_asked_for_and_then_granted_by_each(windows, why):
    found = judged(windows)

    assert found.verdict is Judged.BROKEN
    assert why in found.evidence[0]


def test_whoever_writes_in_a_window_ends_it():
    ours = replace(rewrite(3, 110_000, FIVE), window_ids=("w",))
    found = judged([asked(), granted()], WRITTEN, write(2, 105_000, NINE), ours)

    assert found.verdict is Judged.BROKEN
    assert "snapshot 2 was written in its window" in found.evidence[0]


def test_our_own_commits_since_the_grant_are_no_writes():
    again = replace(rewrite(3, 112_000, FIVE), window_ids=("w",))

    assert judged([asked(), granted()], WRITTEN, OURS, again).verdict is Judged.PROVED


def test_an_intent_counts_in_a_window_too():
    assert judged([asked(), granted()], intents=(intent(104_000),)).verdict is Judged.BROKEN


def test_a_job_may_follow_in_a_moment_what_was_written_before_its_window():
    upsert = (intent(98_000), intent(99_200, "closed"))
    ours = replace(rewrite(2, 99_900, FIVE), window_ids=("w",))

    assert judged([asked(99_300), granted(99_400)], WRITTEN, ours, intents=upsert).verdict is Judged.PROVED


def test_a_window_of_which_the_topic_has_nothing_any_more_proves_nothing():
    assert judged([], announced_since_ms=200_000).verdict is Judged.NOT_PROVABLE


def test_a_topic_that_cannot_be_read_may_be_read_later():
    assert judged([], topic_is_known=False).verdict is not Judged.BROKEN
