"""Of several files and a table's own properties: which value holds, and where it comes from."""

import pytest

from isotherm.core.policy.policy import Mode, Policy
from isotherm.core.policy.precedence import resolve
from isotherm.core.units import MAX_SPAN_MS
from support.builders import DAY, HOUR, MIB, MINUTE
from support.policy_files import found, policy_file, resolved


def test_a_table_that_no_file_matches_is_only_observed():
    assert resolved(["tables: other.*"]) is None


def test_the_most_specific_wins_field_by_field():
    policy = resolved(
        [
            "tables: shop.orders\ncold: {after: 5}",
            "tables: '*'\ncold: {after: 1, quiet_for: 1m}\ncompact: {min_files: 7}",
            "tables: shop.*\ncold: {quiet_for: 2m}",
        ]
    )

    assert (policy.cold.after, policy.cold.quiet_for, policy.compact.min_files) == (5, 2 * MINUTE, 7)


def test_a_table_property_beats_the_built_in_and_a_policy_beats_the_property():
    properties = {"write.target-file-size-bytes": str(64 * MIB)}

    assert resolved(["tables: '*'"], properties=properties).compact.target_file_size == 64 * MIB
    assert (
        resolved(
            ["tables: '*'\ncompact: {target_file_size: 32MiB}"], properties=properties
        ).compact.target_file_size
        == 32 * MIB
    )


def test_for_deletion_the_stricter_wins_unless_a_policy_names_the_very_table():
    properties = {"history.expire.max-snapshot-age-ms": str(48 * HOUR)}
    pattern, exact = "tables: shop.*\nexpire: {keep_for: 1h}", "tables: shop.orders\nexpire: {keep_for: 1h}"

    assert resolved([pattern], properties=properties).expire.keep_for == 48 * HOUR
    assert resolved([exact], properties=properties).expire.keep_for == HOUR


def test_gc_enabled_false_is_absolute():
    policy = resolved(["tables: shop.orders\nexpire: {enabled: true}"], properties={"gc.enabled": "false"})

    assert not policy.expire.enabled


def test_each_value_says_where_it_comes_from():
    answer = resolve(
        "shop.orders",
        {"history.expire.min-snapshots-to-keep": "50"},
        [("shop.yaml", policy_file("tables: shop.*\ncold: {after: 3}"))],
    )

    assert answer.origins == {"expire.keep_last": "table property", "cold.after": "shop.yaml"}


def test_the_hash_changes_with_any_value_and_not_with_the_way_it_is_written():
    one, same = (resolved([f"tables: '*'\ncold: {{quiet_for: {text}}}"]) for text in ("60s", "1m"))

    assert one.hash == same.hash != Policy().hash


def test_a_table_property_below_a_floor_counts_as_the_floor_and_is_noted():
    answer = found(["tables: '*'"], properties={"history.expire.min-snapshots-to-keep": "1"})

    assert answer.policy.expire.keep_last == 5
    assert answer.origins == {"expire.keep_last": "table property"}
    assert answer.notes == (
        "expire.keep_last: the table property says 1, raised to the floor; a file that names this table can say less",
    )


def test_what_gives_way_to_a_stricter_table_property_is_noted():
    answer = found(
        ["tables: shop.*\nexpire: {keep_for: 1h}"],
        properties={"history.expire.max-snapshot-age-ms": str(2 * DAY)},
    )

    assert answer.origins == {"expire.keep_for": "table property"}
    assert answer.notes == (
        (
            "expire.keep_for: 0.yaml says 1h, but the table property keeps more; only a file that names this table can "
            "overrule it"
        ),
    )


def test_a_pattern_may_keep_more_than_the_table_property():
    properties = {
        "history.expire.max-snapshot-age-ms": str(HOUR),
        "write.metadata.previous-versions-max": "10",
    }
    policy = resolved(
        ["tables: '*'\nexpire: {keep_for: 2d}\nmetadata: {keep_last: 50}"], properties=properties
    )

    assert (policy.expire.keep_for, policy.metadata.keep_last) == (2 * DAY, 50)


@pytest.mark.parametrize("text", ["", "-1", "0"])
def test_a_table_property_that_names_nothing_says_nothing(text):
    assert resolved(["tables: '*'"], properties={"history.expire.max-snapshot-age-ms": text}) == Policy()


@pytest.mark.parametrize("text", ["9223372036854775807", "9" * 30])
def test_a_table_property_of_any_length_keeps_for_ever(text):
    """Java's largest number is how people say so."""
    policy = resolved(["tables: '*'"], properties={"history.expire.max-snapshot-age-ms": text})

    assert policy.expire.keep_for == MAX_SPAN_MS


@pytest.mark.parametrize("text", ["many", "1.5", "٣", " 31536000000"])
@pytest.mark.parametrize("name", ["max-snapshot-age-ms", "min-snapshots-to-keep"])
def test_where_a_table_property_says_how_much_stays_and_nobody_can_read_it_nothing_goes(name, text):
    found = resolve("shop.orders", {f"history.expire.{name}": text}, [("p.yaml", policy_file("tables: '*'"))])

    assert not found.policy.expire.enabled
    assert found.origins["expire.enabled"] == f"table property history.expire.{name} is no number"


@pytest.mark.parametrize("word", ["no", "0", "off", "FALSE"])
def test_gc_is_enabled_by_the_word_true_alone_as_for_java(word):
    policy = resolved(["tables: '*'"], properties={"gc.enabled": word})

    assert not policy.expire.enabled


def test_a_table_that_trims_its_own_metadata_is_left_to_it():
    policy = resolved(
        ["tables: shop.orders\nmetadata: {enabled: true}"],
        properties={"write.metadata.delete-after-commit.enabled": "true"},
    )

    assert not policy.metadata.enabled


def test_gc_enabled_false_keeps_everything():
    policy = resolved(["tables: shop.orders\norphans: {mode: apply}"], properties={"gc.enabled": "FALSE"})

    assert (policy.expire.enabled, policy.metadata.enabled, policy.orphans.mode) == (False, False, Mode.OFF)
    assert policy.compact.enabled


def test_a_list_is_replaced_as_a_whole():
    window = "{{cron: 0 {hour} * * *, lasts: 1h}}"
    one, two, three = (window.format(hour=hour) for hour in (1, 2, 3))
    policy = resolved(
        [f"tables: '*'\nwork: {{windows: [{one}, {two}]}}", f"tables: shop.*\nwork: {{windows: [{three}]}}"]
    )

    assert [window.cron for window in policy.work.windows] == ["0 3 * * *"]


def test_a_more_general_file_may_say_the_time_zone_of_a_list():
    one = "{cron: 0 3 * * *, lasts: 1h}"
    policy = resolved(["tables: '*'\nwork: {tz: Asia/Tokyo}", f"tables: shop.*\nwork: {{windows: [{one}]}}"])

    assert (policy.work.tz, len(policy.work.windows)) == ("Asia/Tokyo", 1)


@pytest.mark.parametrize(
    ("said", "gc_enabled", "looks"),
    [
        ("report", "true", True),
        ("report", "false", True),  # it is off for the table's sake
        ("off", "true", False),
        ("off", "false", False),
    ],
)
def test_who_has_switched_the_search_for_orphans_off_is_known(said, gc_enabled, looks):
    file = policy_file(f"tables: '*'\norphans: {{mode: {said}}}")
    answer = resolve("shop.orders", {"gc.enabled": gc_enabled}, [("a.yaml", file)])

    assert answer.looks_for_orphans is looks
    assert (answer.policy.orphans.mode is Mode.OFF) is ("off" in said or gc_enabled == "false")
