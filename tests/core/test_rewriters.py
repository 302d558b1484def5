"""What is remembered of others who rewrite a table's files, and from when on it is believed that there is nobody."""

from isotherm.core.model.tables import Snapshot
from isotherm.core.rewriters import REMEMBERED_MS, WATCHED_MS, Watch, known_since_ms, why_not_converted
from isotherm.core.units import DAY_MS as DAY
from support.builders import NOW, facts


def told(watch, now_ms=NOW, **known):
    return watch.told(facts(**known), now_ms)


def test_a_rewrite_counts_for_a_hundred_days_and_longer_where_the_table_still_has_it():
    watch = Watch(0).sees(7, NOW)

    assert told(watch, NOW + REMEMBERED_MS - 1).rewritten_in == 7
    assert told(watch, NOW + REMEMBERED_MS).rewritten_in is None
    assert told(watch, NOW + REMEMBERED_MS, rewritten_in=7).rewritten_in == 7


def test_what_is_seen_again_counts_from_when_it_was_seen_first_and_a_later_one_anew():
    watch = Watch(0).sees(7, NOW).sees(7, NOW + DAY).sees(None, NOW + DAY)

    assert Watch(0, 7, NOW) == watch
    assert Watch(0, 8, NOW + DAY) == watch.sees(8, NOW + DAY)


def test_a_clock_that_was_ahead_makes_nobody_forget():
    assert told(Watch(0, 7, NOW + 400 * DAY)).rewritten_in == 7
    assert told(Watch(NOW + 400 * DAY)).watched_since_ms == NOW + 400 * DAY


def test_a_table_is_known_from_its_first_commit_on_or_from_where_its_history_begins():
    assert known_since_ms(None, NOW, is_whole=False) == 0
    assert known_since_ms(Snapshot(1, 1, NOW - DAY), NOW, is_whole=True) == 0
    assert known_since_ms(Snapshot(1, 1, NOW - DAY), NOW, is_whole=False) == NOW - DAY
    assert known_since_ms(Snapshot(9, 9, NOW + DAY), NOW, is_whole=False) == NOW


def test_what_expired_unseen_begins_the_watch_again():
    watch = Watch(0, 7, NOW)
    oldest = Snapshot(9, 9, NOW - DAY)

    def after(first, followed_through):
        return watch.after_gap(first, followed_through, NOW, is_whole=False)

    assert watch == after(oldest, 8) == after(None, 8)
    assert Watch(NOW - DAY, 7, NOW) == after(oldest, 7)
    assert Watch(NOW - DAY, 7, NOW) == after(Snapshot(9, 0, NOW - DAY), 7), "format 1 numbers nothing"


def test_who_rewrites_is_said_by_name_where_that_is_known():
    known = facts(rewritten_in=7, rewritten_by="Amoro")

    assert why_not_converted(Watch(0).told(known, NOW)) == (
        "Amoro rewrites files of this table too (snapshot 7) and could bring deleted rows back"
    )


def test_for_a_fortnight_nobody_can_say_that_nobody_rewrites():
    since_ms = NOW - WATCHED_MS

    assert why_not_converted(told(Watch(since_ms))) is None
    why = why_not_converted(told(Watch(since_ms + 1)))
    assert why is not None
    assert "it takes 14d to see whether another writer rewrites files of this table too" in why
    assert why_not_converted(told(Watch(since_ms).sees(7, NOW))) == (
        "another writer rewrites files of this table too (snapshot 7) and could bring deleted rows back"
    )
