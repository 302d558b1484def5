"""What came of a replay, in eighty columns and as JSON."""

import json

import pytest

from isotherm.runtime import clock
from isotherm_ingest.commands import replay_text
from isotherm_ingest.commands.terminal import out
from isotherm_ingest.replay.choosing import Fate
from isotherm_ingest.replay.letters import Letter
from isotherm_ingest.replay.outcome import Asked, Replayed

AT = [("shop.public.orders", 0, number) for number in range(20)]


def some(*fates: tuple[Fate, str], **more: object) -> Replayed:
    letters = {at: Letter(at, 1, "undecodable_value", 1) for at in AT[: len(fates)]}
    return Replayed("shop.orders", True, letters, dict(zip(AT, fates, strict=False)), **more)  # type: ignore[arg-type]


def test_every_outcome_has_a_line_and_what_is_left_is_counted() -> None:
    long = "incompatible_schema:column amount is DECIMAL(10,2) in the table and STRING in the message"
    found = some((Fate.WRITTEN, ""), (Fate.WRITTEN, ""), (Fate.BAD, long), (Fate.UNDECIDED, "why"), commits=1)
    out.width = 80
    with out.capture() as told:
        replay_text.print_replayed(found)
    lines = [line.rstrip() for line in told.get().splitlines()]

    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["written", "2", "undecodable_value"]
    assert lines[2].startswith("still bad")
    assert lines[-1] == "shop.orders: 4 dead letters, 2 written in 1 commit, 2 left for a person"
    assert found.is_open
    assert not some((Fate.WRITTEN, ""), (Fate.SUPERSEDED, ""), (Fate.THERE, ""), (Fate.WAITS, "")).is_open


def test_a_flood_of_whys_is_summed_up() -> None:
    found = some(*((Fate.BAD, f"why {number}") for number in range(20)))
    with out.capture() as told:
        replay_text.print_replayed(found)

    assert len(told.get().splitlines()) == 1 + replay_text.MOST_WHYS + 1 + 1
    assert "of other kinds" in told.get()


def test_programs_get_counts_and_what_is_left() -> None:
    found = json.loads(
        json.dumps(replay_text.as_json(some((Fate.WRITTEN, ""), (Fate.BAD, "why"), commits=1)))
    )

    assert found["outcomes"] == {
        "written": 1, "there": 0, "superseded": 0, "bad": 1, "undecided": 0, "waits": 0, "other": 0,
    }  # fmt: skip
    assert found["left"] == [
        {"topic": "shop.public.orders", "partition": 0, "offset": 1, "outcome": "bad", "why": "why"}
    ]
    assert (found["mode"], found["needs_a_person"], found["commits"]) == ("mirror", True, 1)


def test_without_letters_and_in_a_dry_run_the_summary_says_so() -> None:
    assert replay_text.summary(some()) == "shop.orders: no dead letters"
    dry = some((Fate.WAITS, ""), to_try=3, is_dry=True)
    assert replay_text.summary(dry) == "shop.orders: 1 dead letter; 3 would be tried, nothing was written"


def test_a_time_is_of_utc_or_a_span() -> None:
    assert replay_text.since_ms("") is None
    assert replay_text.since_ms("1970-01-02") == replay_text.since_ms("1970-01-02T01:00+01:00") == 86_400_000
    assert abs((replay_text.since_ms("90m") or 0) - (clock.now_ms() - 5_400_000)) < 60_000
    with pytest.raises(ValueError, match="no span"):
        replay_text.since_ms("soon")


def test_what_is_asked_for_is_told_by_reason_and_time() -> None:
    letter = Letter(AT[0], 1, "no_row", 100)

    assert Asked("t").takes(letter)
    assert Asked("t", "no_row", 100).takes(letter)
    assert not Asked("t", "no_schema").takes(letter)
    assert not Asked("t", since_ms=101).takes(letter)
