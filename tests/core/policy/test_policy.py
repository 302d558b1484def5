"""What a policy file may say, and what is said of its mistakes: place, reason and remedy."""

import pytest

from isotherm.core.model.jobs import Action
from isotherm.core.policy.fields import FLOORS, RULES
from isotherm.core.policy.policy import Mode, Policy
from isotherm.runtime.strict_model import ConfigError
from support.policy_files import found, policy_file, resolved


@pytest.mark.parametrize(
    "text",
    [
        "expire: {keep_for: 99999999w}",
        "compact: {target_file_size: 9000000TiB}",
        "compact: {min_files: 99999999999999999999}",
        "cold: {after: 1e999}",
        "cold: {after: .nan}",
        "cold: {after: 1e12}",
    ],
)
def test_no_value_leaves_64_bits(text):
    with pytest.raises(ConfigError, match=r"p.yaml:2:\d+: "):
        policy_file(f"tables: a\n{text}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "tables: a\ncold: {quiet_fro: 5m}",
            "p.yaml:2:8: cold.quiet_fro: unknown key; did you mean `quiet_for`?",
        ),
        ("tables: a\nexpir: {}", "p.yaml:2:1: expir: unknown key; did you mean `expire`?"),
        ("cold: {}", "p.yaml:1:1: tables: is missing"),
        ("tables: a\ncold: {quiet_for: 15}", "p.yaml:2:8: cold.quiet_for: expected a span with a unit"),
        ("tables: a\ncompact:\n  target_file_size: 1B", "p.yaml:3:3: compact.target_file_size:"),
        ("tables: a\ncold: &x {}\nexpire: *x", "p.yaml:3:9: aliases"),
        ("tables: a\ntables: b", "key 'tables' stands twice"),
        ("- a", "p.yaml:1:1: expected"),
        ("tables: [", "p.yaml:1:"),
        (
            "tables: a\nexpire: {keep_last: 0}",
            "expire.keep_last: Input should be greater than or equal to 1 (it says 0)",
        ),
        (
            "tables: a\ncompact: {ask_writer: 5h}",
            "compact.ask_writer: expected a span of at least `30s` and at most `10m` (it says '5h')",
        ),
        (
            "tables: a\norphans: {every: 59s}",
            "orphans.every: expected a span of at least `1m` and at most `36500d` (it says '59s')",
        ),
        (
            "tables: a\ncold: {quiet_for: 40000d}",
            "cold.quiet_for: expected a span of at most `36500d` (it says '40000d')",
        ),
        (
            "tables: a\norphans:\n  mode: apply\n  older_than: 2h",
            (
                "p.yaml:4:3: orphans.older_than: 2h is below the floor of 1d: files that a slow writer has yet to commit "
                "would be deleted; raise it, or if you mean it, add `override: [orphans.older_than]`"
            ),
        ),
        (
            "tables: a\noverride: [expire.keep_last]\nexpire: {keep_last: 5}",
            "p.yaml:2:12: override.0: the floor of expire.keep_last is 5 and this file says 5: take it out",
        ),
        (
            "tables: a\noverride: [expire.keep_last]",
            "p.yaml:2:12: override.0: the floor of expire.keep_last is 5 and this file says nothing of it",
        ),
        (
            "tables: a\noverride: [expire.keep_lst]",
            "p.yaml:2:12: override.0: no field with a floor; did you mean `expire.keep_last`?",
        ),
        ("tables: a\noverride: [cold.after]", "override.0: no field with a floor;"),
        (
            "tables: a\ncompact: {min_files: '7'}",
            "compact.min_files: expected `learned`, or a whole number from 2 on",
        ),
        (
            "tables: a\nwork: {windows: [{cron: 0 3 * *, lasts: 1h}]}",
            "p.yaml:2:19: work.windows.0.cron: expected five",
        ),
        ("tables: a\nwork: {windows: [{lasts: 1h}]}", "p.yaml:2:18: work.windows.0.cron: is missing"),
        (
            "tables: a\nwork: {windows: [{cron: 0 0 30 2 *, lasts: 1h}]}",
            "p.yaml:2:19: work.windows.0.cron: no cron expression: bad day-of-month; none of its months has such a day",
        ),
        (
            "tables: a\nwork: {windows: [{cron: 0 3 * * *, lasts: 0s}]}",
            (
                "p.yaml:2:36: work.windows.0.lasts: a window that is never open; let it last for a minute at least: `1m` "
                "(it says '0s')"
            ),
        ),
        (
            "tables: a\nwork: {windows: [{cron: 0 3 * * *, lasts: 1h, do: []}]}",
            "p.yaml:2:47: work.windows.0.do: a window for no action; name one, such as `compact`",
        ),
        (
            "tables: a\nwork: {windows: [{cron: 0 3 * * *, lasts: 1h, do: [delete]}]}",
            "p.yaml:2:52: work.windows.0.do.0: Input should be 'expire', 'rewrite_manifests'",
        ),
        ("tables: a\nwork: {windows: [{}]}", "p.yaml:2:18: work.windows.0.lasts: is missing"),
        (
            "tables: a\nwork:\n  tz: Europe/Berln",
            "p.yaml:3:3: work.tz: no time zone has this name; did you mean `Europe/Berlin`? (it says 'Europe/Berln')",
        ),
        (
            "tables: a\nwork: {tz: ../../etc/passwd}",
            "p.yaml:2:8: work.tz: no time zone has this name; use an IANA name, such as `Europe/Berlin` or `UTC`",
        ),
        ("tables: a\nwork: {tz: 2}", "p.yaml:2:8: work.tz: Input should be a valid string (it says 2)"),
    ],
)
def test_a_complaint_names_place_and_remedy(text, complaint):
    with pytest.raises(ConfigError) as error:
        policy_file(text)

    assert complaint in str(error.value)


FILES_AT_THE_FLOORS = [
    (name, RULES[name].written(floor.least), RULES[name].written(floor.least - 1))
    for name, floor in FLOORS.items()
]


@pytest.mark.parametrize(("name", "least", "below"), FILES_AT_THE_FLOORS)
def test_a_floor_may_be_reached_and_passed_only_by_name(name, least, below):
    section, field = name.split(".")
    policy_file(f"tables: a\n{section}: {{{field}: {least}}}")
    with pytest.raises(ConfigError, match="is below the floor of"):
        policy_file(f"tables: a\n{section}: {{{field}: {below}}}")
    answer = found([f"tables: '*'\noverride: [{name}]\n{section}: {{{field}: {below}}}"])

    assert RULES[name].written(getattr(getattr(answer.policy, section), field)) == below
    assert answer.origins == {name: "0.yaml (override)"}


def test_every_mistake_about_floors_is_told_at_once():
    with pytest.raises(ConfigError) as error:
        policy_file("tables: a\nexpire:\n  keep_last: 1\n  keep_for: 1m\noverride: [orphans.older_than]")

    assert ["p.yaml:4:3", "p.yaml:3:3", "p.yaml:5:12"] == [
        line.split(": ")[0] for line in str(error.value).splitlines()
    ]


def test_off_is_a_word():
    assert policy_file("tables: a\norphans: {mode: off}").orphans.mode is Mode.OFF
    assert policy_file("tables: 2026-01-01").tables == ("2026-01-01",)


def test_what_a_policy_said_before_there_were_zones_it_says_still():
    """UTC, and windows for all that is done."""
    work = resolved(["tables: '*'\nwork: {windows: [{cron: 0 3 * * *, lasts: 1h}]}"]).work

    assert work.tz == "UTC"
    assert {work.windows_of(action) for action in Action} == {work.windows}


def test_a_section_of_which_every_line_is_commented_out_says_nothing():
    assert resolved(["tables: '*'\ncold:\n  # after: 3\ntests:\noverride:"]) == Policy()


@pytest.mark.parametrize(
    "name", ["shop.orders", "shop.*", "eu-west.a-b", "shop.[ab]?", "größe.äö", "a.[]x]", "*"]
)
def test_a_name_is_one_name(name):
    assert policy_file(f"tables: '{name}'").tables == (name,)


@pytest.mark.parametrize(
    "tables",
    [
        "\n  - shop.orders\n    - shop.items",
        "\n  - shop.orders\n    shop.items",
        " shop.orders shop.items",
        " shop.orders, shop.items",
        " shop.orders,shop.items",
        " shop.orders;shop.items",
        "\n  -shop.orders",
        ' "shop.orders\\nshop.items"',
    ],
)
def test_what_looks_like_several_names_is_refused_for_the_table_would_fall_to_a_general_file(tables):
    with pytest.raises(ConfigError, match="looks like several names: make each an item of the list"):
        policy_file(f"tables:{tables}\nexpire: {{enabled: false}}")


@pytest.mark.parametrize("name", ["shop.[ab", "[" * 900, "x" * 1001])
def test_a_pattern_that_would_take_long_to_compile_is_refused(name):
    with pytest.raises(ConfigError, match=r"^p.yaml:1:1: tables\.0: "):
        policy_file(f"tables: '{name}'")
