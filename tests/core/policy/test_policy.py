import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.model.jobs import Action
from isotherm.core.policy.conflicts import conflicts
from isotherm.core.policy.fields import FLOORS, RULES
from isotherm.core.policy.patterns import Names, Patterns, example_table, matches, overlap
from isotherm.core.policy.policy import Mode, Policy
from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.core.policy.rulebook import Gap, Rulebook
from isotherm.core.units import MAX_SIZE, MAX_SPAN_MS, parse_size, parse_span_ms, size_written, span_written
from isotherm.runtime.settings import ConfigError
from isotherm.runtime.yaml_reader import parse_yaml
from support.builders import DAY, GIB, HOUR, KIB, MIB, MINUTE


def policy_file(text):
    return parse_yaml(text, "p.yaml", PolicyFile)


def found(files, table="shop.orders", properties=None):
    named = [(f"{number}.yaml", policy_file(text)) for number, text in enumerate(files)]
    return resolve(table, properties or {}, named)


def resolved(files, table="shop.orders", properties=None):
    answer = found(files, table, properties)
    return None if answer is None else answer.policy


def clashes(*texts):
    return conflicts((f"{number}.yaml", policy_file(text)) for number, text in enumerate(texts))


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


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("512MiB", 512 * MIB),
        ("1.5 GiB", 3 * GIB // 2),
        ("20gib", 20 * GIB),
        ("10KB", 10_000),
        ("7B", 7),
        (7, 7),
    ],
)
def test_sizes_have_units(text, bytes_):
    assert bytes_ == parse_size(text)


@pytest.mark.parametrize(
    "text", ["", "MiB", "-5MiB", "5 parsecs", "1e400", "9" * 400 + "MiB", True, None, 1.5]
)
def test_what_has_another_unit_is_no_size(text):
    with pytest.raises(ValueError, match="unit"):
        parse_size(text)


@given(st.integers(0, MAX_SPAN_MS), st.integers(0, MAX_SIZE))
def test_what_is_written_is_read_as_the_same(span, size):
    assert (span, size) == (parse_span_ms(span_written(span)), parse_size(size_written(size)))


def test_spans_and_sizes_are_written_as_people_write_them():
    spans = [span_written(ms) for ms in (0, 15 * MINUTE, 90 * MINUTE, 7 * DAY, 250)]
    sizes = [size_written(size) for size in (0, 128 * MIB, 1536 * KIB, 1000)]

    assert (["0s", "15m", "1h30m", "7d", "250ms"], ["0B", "128MiB", "1536KiB", "1000B"]) == (spans, sizes)


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
        ("tables: a\ncompact: {min_files: '7'}", "compact.min_files: Input should be a valid integer"),
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


def test_off_is_a_word():
    assert policy_file("tables: a\norphans: {mode: off}").orphans.mode is Mode.OFF
    assert policy_file("tables: 2026-01-01").tables == ("2026-01-01",)


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


def test_what_a_policy_said_before_there_were_zones_it_says_still():
    """UTC, and windows for all that is done."""
    work = resolved(["tables: '*'\nwork: {windows: [{cron: 0 3 * * *, lasts: 1h}]}"]).work

    assert work.tz == "UTC"
    assert {work.windows_of(action) for action in Action} == {work.windows}


def test_a_section_of_which_every_line_is_commented_out_says_nothing():
    assert resolved(["tables: '*'\ncold:\n  # after: 3\ntests:\noverride:"]) == Policy()


class TestConflicts:
    def test_two_files_that_disagree_about_the_same_tables_are_both_named(self):
        assert clashes(
            "tables: shop.*\ncompact: {min_files: 20}", "tables: shop.*\ncompact: {min_files: 50}"
        ) == [
            (
                "1.yaml: compact.min_files is 50, and 20 in 0.yaml (for shop.*): say it in one of them, or more "
                "specifically; until then 1.yaml holds, the later name"
            )
        ]

    def test_until_it_is_mended_the_later_name_holds_whatever_the_order(self):
        one, two = (
            ("a.yaml", policy_file("tables: s.*\ncold: {after: 1}")),
            (
                "b.yaml",
                policy_file("tables: s.*\ncold: {after: 2}"),
            ),
        )

        assert {resolve("s.t", {}, files).policy.cold.after for files in ([one, two], [two, one])} == {2}

    def test_about_deletion_what_keeps_more_holds_until_it_is_mended(self):
        files = [
            ("a.yaml", policy_file("tables: s.*\nexpire: {keep_for: 30d, keep_last: 10}")),
            ("b.yaml", policy_file("tables: s.*\nexpire: {keep_for: 1d, keep_last: 90}")),
        ]
        answer = resolve("s.t", {}, files)

        assert (answer.policy.expire.keep_for, answer.policy.expire.keep_last) == (30 * DAY, 90)
        assert answer.origins == {"expire.keep_for": "a.yaml", "expire.keep_last": "b.yaml"}
        assert [text.rpartition("; ")[2] for text in conflicts(files)] == [
            "until then 30d holds, which keeps more",
            "until then 90 holds, which keeps more",
        ]

    def test_a_more_specific_file_may_keep_less(self):
        assert (
            resolved(
                ["tables: '*'\nexpire: {keep_for: 30d}", "tables: shop.*\nexpire: {keep_for: 1d}"]
            ).expire.keep_for
            == DAY
        )

    @pytest.mark.parametrize(
        ("one", "two"),
        [
            ("tables: shop.*\ncold: {after: 1}", "tables: shop.*\ncold: {after: 1}"),  # they agree
            (
                "tables: shop.*\ncold: {after: 1}",
                "tables: shop.*\ncold: {quiet_for: 1m}",
            ),  # about other fields
            ("tables: shop.*\ncold: {after: 1}", "tables: shop.o*\ncold: {after: 2}"),  # one is more specific
            ("tables: shop.*\ncold: {after: 1}", "tables: pohs.*\ncold: {after: 2}"),  # about other tables
            ("tables: a*x\ncold: {after: 1}", "tables: a*y\ncold: {after: 2}"),
            # Five literal characters against four: the longer wins.
            ("tables: shop.*\ncold: {after: 1}", "tables: '*_raw'\ncold: {after: 2}"),
        ],
    )
    def test_what_is_no_conflict(self, one, two):
        assert clashes(one, two) == []

    def test_patterns_that_only_meet_in_some_table_are_found_without_it(self):
        (text,) = clashes("tables: shop.*\ncold: {after: 1}", "tables: '*_raws'\ncold: {after: 2}")

        assert "for tables that are both shop.* and *_raws" in text

    @given(
        st.text("ab*?", min_size=1, max_size=6),
        st.text("ab*?", min_size=1, max_size=6),
        st.text("ab", max_size=6),
    )
    def test_patterns_overlap_where_a_name_matches_both(self, one, two, name):
        assert overlap(one, two) == overlap(two, one)
        if matches(one, name) and matches(two, name):
            assert overlap(one, two)

    @pytest.mark.parametrize(
        ("one", "two", "expected"),
        [
            ("a*", "*b", True),
            ("a?", "?b", True),
            ("a?c", "ab", False),
            ("*a*b*", "c*", True),
            ("a[bc]", "a[cd]", True),
            ("a[bc]", "a[de]", False),
            ("a[!b]", "ab", False),
            ("a*", "b*", False),
        ],
    )
    def test_whether_two_patterns_overlap(self, one, two, expected):
        assert overlap(one, two) is expected

    def test_two_characters_are_compared_once_however_often_patterns_have_them(self, monkeypatch):
        compared = []
        real = fnmatch.fnmatchcase
        monkeypatch.setattr(fnmatch, "fnmatchcase", lambda *pair: compared.append(pair) or real(*pair))

        assert not overlap("*" + "kl" * 100 + "y", "*" + "lk" * 100 + "z")
        assert len(compared) < 2000


@pytest.mark.parametrize("pattern", ["*", "shop.*", "shop.orders", "s?op.*", "[ab]*.x", "[!a]b"])
def test_a_pattern_has_an_example(pattern):
    assert matches(pattern, example_table([pattern]))


NAMES = st.text("ab.", min_size=1, max_size=8)
PATTERNS = st.text("ab.*?", min_size=1, max_size=6)


@given(st.lists(st.tuples(PATTERNS, st.integers(2, 5)), max_size=8), NAMES)
def test_a_rulebook_answers_as_all_of_its_files_would(entries, table):
    files = {
        f"{number}.yaml": PolicyFile.model_validate({"tables": [pattern], "compact": {"min_files": least}})
        for number, (pattern, least) in enumerate(entries)
    }
    book = Rulebook(files)

    assert book.resolve(table, {}) == resolve(table, {}, files.items()) == book.resolve(table, {})


@given(st.lists(PATTERNS, max_size=5), st.lists(PATTERNS, max_size=5), st.booleans(), NAMES)
def test_whether_a_table_has_a_policy_is_known_without_making_it(good, broken, is_whole, table):
    files = {f"{n}.yaml": PolicyFile.model_validate({"tables": [one]}) for n, one in enumerate(good)}
    gaps = {f"{n}-broken.yaml": Gap((one,), is_whole=is_whole) for n, one in enumerate(broken)}
    book = Rulebook(files, gaps)

    assert book.has_policy(table) is (book.resolve(table, {}) is not None)


@given(st.lists(PATTERNS, max_size=8), NAMES)
def test_no_pattern_that_matches_is_overlooked(patterns, table):
    index = Patterns((pattern, None) for pattern in patterns)

    assert {p for p in patterns if matches(p, table)} <= {p for p, _ in index.that_may_match(table)}


@given(st.lists(PATTERNS, max_size=8), NAMES)
def test_the_names_that_patterns_match_are_found_by_any_text_in_them(patterns, table):
    index = Names((pattern, None) for pattern in patterns)

    assert sorted(p for p, _ in index.that_match(table)) == sorted(p for p in patterns if matches(p, table))


def test_of_patterns_that_begin_and_end_alike_a_name_is_held_against_few():
    patterns = [f"shop.events_*_{number:05}_v[12]" for number in range(2_000)]
    held = []

    class Held(str):
        __slots__ = ()

        def startswith(self, *text):
            held.append(text)
            return super().startswith(*text)

    index = Names((pattern, None) for pattern in patterns)

    assert [p for p, _ in index.that_match(Held("shop.events_clicks_00007_v1"))] == [patterns[7]]
    assert len(held) < 5


@given(st.lists(PATTERNS, min_size=2, max_size=5, unique=True), NAMES)
def test_where_files_of_equal_weight_meet_in_a_table_and_disagree_it_is_told(patterns, table):
    files = [
        (
            f"{number}.yaml",
            PolicyFile.model_validate({"tables": [pattern], "compact": {"min_files": number + 2}}),
        )
        for number, pattern in enumerate(patterns)
    ]
    weights = [weight for _, file in files if (weight := file.specificity(table)) is not None]

    assert len(conflicts(files)) >= len(weights) - len(set(weights))


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
