"""Which snapshots an expiry takes, which stay, and when it is due."""

from dataclasses import replace

import pytest

from isotherm.contract.events import Intent
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import Astray, RefEnd
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Flight
from isotherm.core.policy.policy import Expire, Policy
from support.builders import DAY, HOUR, KIB, MIB, MINUTE, NOW, TABLE, facts, key, snapshots, view
from support.planned import POLICY, on_table


def expiry(count, *, expire=POLICY.expire, **fields):
    world = view(**{"announced_sequence_number": count, "snapshots": snapshots(count), **fields})
    planned = plan(world, Policy(expire=expire), NOW)
    return on_table(planned, Action.EXPIRE), (planned.requests[0].snapshots if planned.requests else ())


def test_of_many_snapshots_a_twentieth_must_be_free_to_go():
    """Ten of ten thousand are not worth reading and writing the metadata of all."""
    week = Expire(at_once=10)
    few, many = (expiry(10_080 + count, expire=week)[0] for count in (500, 540))

    assert (few.verdict, many.verdict) == (Verdict.CLEAN, Verdict.DUE)
    assert "of 10580 snapshots may go, due at 529" in few.why


def test_branches_and_tags_past_their_own_age_are_due_by_themselves():
    ends = (RefEnd("q3", NOW - 1), RefEnd("audit", NOW), RefEnd("q4", NOW + HOUR))
    decision, going = expiry(3, facts=facts(ref_ends=ends))
    young, _ = expiry(3, facts=facts(ref_ends=ends[2:]))

    assert (decision.verdict, going) == (Verdict.DUE, ())
    assert decision.why == "past their own age (max-ref-age-ms), and to be dropped: q3, audit"
    assert young.verdict is Verdict.CLEAN
    assert expiry(1, facts=facts(ref_ends=ends[2:]))[0].wake.at_ms == NOW + HOUR
    assert expiry(3, expire=Expire(enabled=False), facts=facts(ref_ends=ends))[0].verdict is Verdict.OFF


@pytest.mark.parametrize(
    ("cleans", "schemas", "specs", "expected"),
    [
        (True, 9, 1, ", then of 9 schemas and 1 specs those that nothing uses"),
        (True, 1, 3, ", then of 1 schemas and 3 specs those that nothing uses"),
        (True, 1, 1, ""),
        (True, 0, 0, ""),
        (False, 9, 3, ""),
    ],
)
def test_it_says_that_schemas_and_specs_may_follow(cleans, schemas, specs, expected):
    expire = Expire(keep_for="10m", keep_last=3, at_once=2, clean_expired_metadata=cleans)
    decision, _ = expiry(20, expire=expire, facts=facts(schemas=schemas, specs=specs))

    assert decision.why == f"9 of 20 snapshots may go, due at 2{expected}"


def test_of_many_branches_and_tags_past_their_age_some_are_named():
    decision, _ = expiry(3, facts=facts(ref_ends=tuple(RefEnd(f"run-{one}", NOW - 9) for one in range(7))))

    assert decision.why.endswith("dropped: run-0, run-1, run-2, run-3, run-4 and 2 more")


def test_the_newest_and_the_young_stay():
    decision, going = expiry(20)

    assert list(going) == list(range(1, 10))  # 11 came nine minutes ago, and 10 was the newest until then
    assert decision.why == "9 of 20 snapshots may go, due at 2"


def test_what_was_the_newest_until_a_moment_ago_stays_however_old_it_is():
    """A stream stood still for a weekend; on Monday a query began at the head, and the stream came back."""
    minutely = snapshots(30)
    friday = (replace(one, committed_at_ms=one.committed_at_ms - 60 * HOUR) for one in minutely[:20])
    log = (*friday, *minutely[20:])
    _, going = expiry(30, snapshots=log, expire=Expire(keep_for="10m", keep_last=3, at_once=2))
    _, later = expiry(30, snapshots=log[:24], expire=Expire(keep_for="9m", keep_last=3, at_once=2))

    assert list(going) == list(range(1, 20)), "20 was the newest until nine minutes ago"
    assert list(later) == list(range(1, 21))


def published(left_ago_ms):
    """A branch of a week, 5 to 24, that was published so long ago: until then `main` stood on 4."""
    minutely = snapshots(30)
    return tuple(
        replace(
            one,
            committed_at_ms=one.committed_at_ms - (7 * DAY if one.snapshot_id < 25 else 0),
            left_at_ms=NOW - left_ago_ms if one.snapshot_id == 4 else 0,
        )
        for one in minutely
    )


def test_what_main_left_when_a_branch_was_published_counts_from_then():
    policy = Expire(keep_for="10m", keep_last=3, at_once=2)
    _, going = expiry(30, snapshots=published(10 * MINUTE - 1), expire=policy)
    _, later = expiry(30, snapshots=published(10 * MINUTE), expire=policy)

    assert list(going) == [1, 2, 3], (
        "a query began with 4, or a writer, who needs all that came with the branch"
    )
    assert list(later) == list(range(1, 24)), "24 was the newest until five minutes ago"


def test_a_time_in_the_far_future_at_which_main_left_something_says_nothing():
    policy = Expire(keep_for="10m", keep_last=3, at_once=2)
    _, going = expiry(30, snapshots=published(-DAY), expire=policy)
    _, ahead = expiry(30, snapshots=published(1 - DAY), expire=policy)

    assert list(going) == list(range(1, 24))
    assert list(ahead) == [1, 2, 3], "another clock may be ahead by less"


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"snapshots": tuple(replace(s, is_pinned=s.snapshot_id == 4) for s in snapshots(20))}, {4}),
        (
            {
                "snapshots": tuple(
                    replace(s, kept_until_ms=NOW + 1 if s.snapshot_id == 4 else NOW) for s in snapshots(20)
                )
            },
            {4},
        ),
        ({"flights": (Flight("j", Action.COMPACT, key(1), 7, NOW),)}, {7}),
        ({"announced_sequence_number": 8}, {9}),
        ({"announced_sequence_number": None}, set(range(1, 10))),
    ],
    ids=["tag", "branch", "base of a job", "not announced", "nothing announced"],
)
def test_what_somebody_may_still_need_stays(fields, kept):
    _, going = expiry(20, **fields)

    assert set(range(1, 10)) - kept == set(going)


@pytest.mark.parametrize("size", [KIB, 64 * MIB], ids=["small", "too large"])
def test_all_of_a_history_stays_that_flinks_sink_needs_whole_and_goes_two_weeks_after_its_last_commit(size):
    needed = facts(whole_until_ms=NOW + 1, metadata_file_bytes=size)
    decision, going = expiry(20, facts=needed)
    _, later = expiry(20, facts=replace(needed, whole_until_ms=NOW))

    assert (decision.verdict, going) == (Verdict.CLEAN, ())
    assert decision.wake.at_ms == NOW + 1
    assert decision.why == (
        "0 of 20 snapshots may go, due at 2, 9 kept because Flink's sink cannot commit its upserts to a table of format 3 "
        "whose first snapshots have expired"
    )
    assert list(later) == list(range(1, 10))


WRITER = "ingest.a"


def stray(number, ago_ms, **fields):
    return Astray(1000 + number, 1000 + number, NOW - ago_ms, **fields)


@pytest.mark.parametrize(
    ("one", "goes"),
    [
        (stray(1, 10 * 60_000), True),
        (stray(1, 10 * 60_000 - 1), False),
        (stray(1, DAY - 1, is_staged=True), False),
        (stray(1, DAY, is_staged=True), True),
        (stray(1, 14 * DAY - 1, token=WRITER), False),
        (stray(1, 14 * DAY, token=WRITER), True),
    ],
    ids=["old", "young", "staged", "staged long ago", "a place", "an old place"],
)
def test_what_no_branch_or_tag_reaches_goes_by_age_alone(one, goes):
    _, going = expiry(20, astray=(one,))

    assert list(going) == [*([1001] if goes else []), *range(1, 10)]


def test_of_more_than_one_commit_takes_the_oldest_go_and_the_rest_does_not_wait_for_a_day():
    daily = Expire(keep_for="10m", keep_last=5, at_latest="7d")
    decision, going = expiry(4000, expire=daily, last_done_ms={Action.EXPIRE: NOW - MINUTE})
    left, _ = expiry(1500, expire=daily, last_done_ms={Action.EXPIRE: NOW - MINUTE})

    assert (decision.verdict, decision.files, len(going)) == (Verdict.DUE, 3989, 2000)
    assert going == tuple(range(1, 2001))
    assert left.verdict is Verdict.CLEAN


@pytest.mark.parametrize(("keep_last", "kept_until_ms"), [(20, 0), (5, NOW)], ids=["the newest", "a branch"])
def test_what_something_else_kept_until_now_is_not_overdue(keep_last, kept_until_ms):
    """Else each commit would free one that is long overdue, and be followed by an expiry."""
    expire = Expire(keep_for="10m", keep_last=keep_last, at_latest="30m")
    # A commit an hour, the last one just now: it has freed the oldest.
    log = tuple(
        replace(one, committed_at_ms=NOW - (keep_last - place) * HOUR, kept_until_ms=kept_until_ms)
        for place, one in enumerate(snapshots(keep_last + 1))
    )
    soon, later = (
        on_table(
            plan(
                view(
                    {}, snapshots=log, announced_sequence_number=100, last_done_ms={Action.EXPIRE: NOW - HOUR}
                ),
                Policy(expire=expire),
                at_ms,
            ),
            Action.EXPIRE,
        )
        for at_ms in (NOW, NOW + HOUR)
    )

    assert (soon.verdict, soon.files) == (Verdict.CLEAN, 1)
    assert later.verdict is Verdict.DUE


def test_the_verdict_says_how_many_no_branch_or_tag_reaches():
    decision, _ = expiry(20, astray=(stray(1, 10 * 60_000), stray(2, 0)))

    assert decision.why == "10 of 22 snapshots may go, due at 2, 1 of them reached by no branch or tag"


def test_a_place_that_a_newer_snapshot_of_main_has_keeps_nothing_that_is_astray():
    newer = tuple(replace(s, sequence_number=2000, token=WRITER) for s in snapshots(1))
    _, going = expiry(1, snapshots=newer, astray=(stray(1, HOUR, token=WRITER), stray(2, HOUR)))

    assert going == (1001, 1002)


def test_the_base_of_a_job_that_a_rollback_left_stays():
    flights = (Flight("j", Action.COMPACT, key(1), 1001, NOW),)
    _, going = expiry(20, astray=(stray(1, DAY), stray(2, DAY)), flights=flights)

    assert list(going) == [1002, *range(1, 10)]


def test_what_is_astray_wakes_the_verdict_when_it_is_old_enough():
    decision, _ = expiry(1, snapshots=snapshots(1), astray=(stray(1, 0), stray(2, 0)))

    assert decision.wake.at_ms == NOW + 10 * 60_000


TOKENS = {2: "ingest.a", 4: "ingest.a", 5: "kafka.connect.offsets.control.sink", 6: "ingest.a"}


def with_places(**first):
    """Twenty snapshots, some of which keep a writer's place; `first` changes the oldest of those that do so last."""
    tokened = (replace(s, token=TOKENS.get(s.snapshot_id, "")) for s in snapshots(20))
    return tuple(replace(s, **first) if s.snapshot_id == 5 else s for s in tokened)


def test_a_writers_place_stays_with_all_that_came_after_it():
    """Writers look for it from the head on, from parent to parent: a snapshot that is missing between ends their search."""
    decision, going = expiry(20, snapshots=with_places())

    assert set(going) == {1, 2, 3, 4}
    assert "5 kept for a writer's place" in decision.why


def test_a_writer_that_is_away_for_two_weeks_loses_its_place():
    away = with_places(committed_at_ms=NOW - 14 * DAY + 1)
    held, going = expiry(20, snapshots=away, expire=Expire(keep_for="10m", keep_last=3, at_once=5))
    _, after = expiry(20, snapshots=with_places(committed_at_ms=NOW - 14 * DAY))

    assert set(going) == set()
    assert held.wake.at_ms == NOW + 1
    assert set(after) == {1, 2, 3, 4, 5}


def test_a_writers_place_is_not_worth_a_metadata_file_that_is_too_large():
    expire = Expire(keep_for="10m", keep_last=3, at_once=2, max_metadata_size="3MiB")
    at_the_limit, below = (
        expiry(20, snapshots=with_places(), expire=expire, facts=facts(metadata_file_bytes=size))[1]
        for size in (3 * MIB, 3 * MIB - 1)
    )

    assert set(at_the_limit) == set(range(1, 10))
    assert set(below) == {1, 2, 3, 4}


MERGE = {"table_uuid": TABLE.uuid, "table": TABLE.name, "intent_id": "merge", "writer": "w", "state": "open"}


def merge(*, expires_at_ms=NOW + MINUTE):
    """An intent that was opened ten minutes ago."""
    return Intent(**MERGE, at_ms=NOW - 10 * MINUTE, expires_at_ms=expires_at_ms)


def test_what_a_writer_with_an_open_intent_may_have_begun_on_stays_with_all_that_came_after_it():
    """It has looked at the table before it said so. Its commit is validated along the history since."""
    decision, going = expiry(100, intents=[merge()])
    _, after = expiry(100, intents=[merge(expires_at_ms=NOW)])
    _, before_all = expiry(20, intents=[merge()])

    assert set(going) == set(range(1, 30))
    assert "60 needed by a writer's open intent" in decision.why
    assert set(after) == set(range(1, 90))
    assert set(before_all) == set()


def test_a_writer_may_have_begun_on_what_main_left_when_a_branch_was_published():
    policy = Expire(keep_for="10m", keep_last=3, at_once=2)
    _, going = expiry(30, snapshots=published(30 * MINUTE), expire=policy, intents=[merge()])
    _, before = expiry(30, snapshots=published(3 * HOUR), expire=policy, intents=[merge()])

    assert list(going) == [1, 2, 3]
    assert 4 in before


def test_the_end_of_an_intent_wakes_the_verdict():
    decision, _ = expiry(20, intents=[merge(expires_at_ms=NOW + 1)])

    assert decision.wake.at_ms == NOW + 1


def test_an_open_intent_is_not_worth_a_metadata_file_that_is_too_large():
    expire = Expire(keep_for="10m", keep_last=3, at_once=2, max_metadata_size="3MiB")

    _, going = expiry(20, intents=[merge()], expire=expire, facts=facts(metadata_file_bytes=3 * MIB))

    assert set(going) == set(range(1, 10))


def test_an_expiry_waits_until_it_is_worth_a_commit():
    decision, going = expiry(20, expire=Expire(keep_for="10m", keep_last=3, at_once=11))

    assert (decision.verdict, going) == (Verdict.CLEAN, ())
    assert decision.wake.at_ms == NOW + 2 * MINUTE


def test_a_few_old_snapshots_go_when_it_is_late():
    expire = Expire(keep_for="10m", keep_last=3, at_once=100, at_latest="5m")
    decision, going = expiry(20, expire=expire)

    assert decision.why == "the oldest could have gone 8m ago, 5m at the latest"
    assert decision.option == "expire.at_latest"
    assert len(going) == 9


def test_large_metadata_lets_snapshots_go_sooner():
    expire = Expire(keep_for="10m", keep_last=3, at_once=100, max_metadata_size="20KiB")
    decision, going = expiry(20, expire=expire, facts=facts(metadata_file_bytes=60 * KIB))

    assert decision.why == "metadata.json has 60.0 KiB of 20.0 KiB, and 9 of 20 snapshots may go"
    assert decision.option == "expire.max_metadata_size"
    assert len(going) == 9


LARGE = {"keep_for": "10m", "keep_last": 3, "at_once": 9, "max_metadata_size": "20KiB"}


def test_large_metadata_that_schemas_make_is_no_reason_to_expire_a_few_again_and_again():
    """A table of very many columns was expired forty times a day, and no expiry made the file any smaller."""
    expire = Expire(keep_for="10m", keep_last=3, at_once=9, max_metadata_size="1MiB")
    rests = {"expire": expire, "last_done_ms": {Action.EXPIRE: NOW - HOUR}}
    decision, _ = expiry(20, facts=facts(metadata_file_bytes=3 * MIB), **rests)
    of_snapshots, _ = expiry(
        20, facts=facts(metadata_file_bytes=60 * KIB), **(rests | {"expire": Expire(**LARGE)})
    )

    assert decision.verdict is Verdict.CLEAN
    assert of_snapshots.verdict is Verdict.DUE


def test_a_table_is_expired_once_in_a_while():
    done = {Action.EXPIRE: NOW - 20 * HOUR}
    decision, going = expiry(20, last_done_ms=done)
    later, _ = expiry(20, last_done_ms={Action.EXPIRE: NOW - DAY})

    assert (decision.verdict, going) == (Verdict.CLEAN, ())
    assert decision.why == "9 of 20 snapshots may go, due at 2, and once in 1d: in 4h"
    assert decision.wake.at_ms is not None
    assert decision.wake.at_ms <= NOW + 4 * HOUR
    assert later.verdict is Verdict.DUE


def test_large_metadata_that_young_snapshots_make_is_no_reason_to_expire_a_few():
    expire = Expire(keep_for="16m", keep_last=3, at_once=100, max_metadata_size="1MiB")
    decision, _ = expiry(20, expire=expire, facts=facts(metadata_file_bytes=300 * MIB))

    assert decision.verdict is Verdict.CLEAN


def test_what_a_branch_or_a_tag_kept_until_the_last_expiry_is_not_overdue():
    """Else each commit sets one free that is long overdue, and is followed by an expiry."""
    log = snapshots(300, apart_ms=HOUR)
    free = tuple(replace(one, is_pinned=number >= 1) for number, one in enumerate(log))
    soon, _ = expiry(
        0, snapshots=free, last_done_ms={Action.EXPIRE: NOW - HOUR}, announced_sequence_number=300
    )
    later, going = expiry(
        0, snapshots=free, last_done_ms={Action.EXPIRE: NOW - 25 * HOUR}, announced_sequence_number=300
    )

    assert (soon.verdict, later.verdict, len(going)) == (Verdict.CLEAN, Verdict.DUE, 1)
