import pytest

from builders import DAY, HOUR, MIB, MINUTE
from isotherm.config import ConfigError, parse_yaml
from isotherm.policy import Policy, PolicyFile, parse_span_ms, resolve


def policy_file(text):
    return parse_yaml(text, "p.yaml", PolicyFile)


def resolved(files, table="shop.orders", properties=None):
    found = resolve(
        table, properties or {}, [(f"{i}.yaml", policy_file(text)) for i, text in enumerate(files)]
    )
    return None if found is None else found.policy


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0s", 0), ("15m", 15 * MINUTE), ("1h 30m", 90 * MINUTE), ("7d", 7 * DAY), ("250ms", 250)],
)
def test_spans_have_units(text, ms):
    assert ms == parse_span_ms(text)


@pytest.mark.parametrize("text", ["", "15", "m", "-5m", "1h30", 15, None, True, "5 parsecs"])
def test_what_has_no_unit_is_no_span(text):
    with pytest.raises(ValueError, match="unit"):
        parse_span_ms(text)


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
    found = resolve(
        "shop.orders",
        {"history.expire.min-snapshots-to-keep": "50"},
        [("shop.yaml", policy_file("tables: shop.*\ncold: {after: 3}"))],
    )

    assert found.origins == {"expire.keep_last": "table property", "cold.after": "shop.yaml"}


def test_the_hash_changes_with_any_value_and_not_with_the_way_it_is_written():
    one, same = (resolved([f"tables: '*'\ncold: {{quiet_for: {text}}}"]) for text in ("60s", "1m"))

    assert one.hash == same.hash != Policy().hash


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
    ],
)
def test_a_complaint_names_place_and_remedy(text, complaint):
    with pytest.raises(ConfigError) as error:
        policy_file(text)

    assert complaint in str(error.value)
