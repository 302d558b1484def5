"""How far a query has come, and when all of it is computed anew."""

import random
from dataclasses import replace

import pytest

from isotherm_ingest.queries.progress import (
    Progress,
    SourceNow,
    fingerprint,
    is_circle,
    new_rows,
    progress,
    reached_ms,
    rows_sql,
    said,
    topic_of_two,
    why_anew,
)
from isotherm_ingest.query_config import Query
from isotherm_ingest.tables.offset_vector import Source, decode, encode, vector_of

QUERY = Query(
    table="shop.sums",
    key=("id",),
    sql="SELECT id FROM shop.log",
    changes={"shop.log": "SELECT id FROM changes"},
)


def source(
    name, offsets, *, uuid="u", head=1, topics=("t",), lost=(), valid_through_ms=None, ids=None, cuts=None
):
    vector = {("t", number): offset for number, offset in enumerate(offsets) if offset is not None}
    told = Source(vector_of(vector), "", ids or {"t": "id"}, cuts or {})
    return SourceNow(
        name, f"{uuid} of {name}", head, told, valid_through_ms, frozenset(topics), frozenset(lost)
    )


LOG = source("shop.log", [10, 20])


def test_a_query_is_as_far_as_the_least_of_its_sources():
    mirror = source("shop.mirror", [12, 7])
    reference = SourceNow("shop.countries", "u", 3, None)
    found = progress(QUERY, [LOG, mirror, reference])

    assert found.source.vector == {"t": {0: 10, 1: 7}}
    assert found.sources["shop.countries"] == ("u", 3)


@pytest.mark.parametrize("behind", [source("shop.mirror", [None, 7]), source("shop.mirror", [], head=None)])
def test_a_table_that_has_nothing_of_a_partition_yet_has_all_of_it_before_it(behind):
    """It is made, and empty; or a partition came later. What it gets is computed then."""
    assert progress(QUERY, [LOG, behind]).source.vector["t"][0] == 0


def test_topics_that_no_changes_are_asked_of_count_for_nothing():
    other = replace(source("shop.other", [1]), topics=frozenset({"x"}), source=Source({"x": {0: 4}}))

    assert progress(QUERY, [LOG, other]).source.vector == {"t": {0: 10, 1: 20}}


def test_what_a_snapshot_says_is_what_was_meant():
    meant = replace(progress(QUERY, [LOG]), final_ms=17)
    summary = {**meant.summary(), "other": "x"}

    assert said(decode(encode(meant.source)), summary) == meant


@pytest.mark.parametrize(
    "text", ["", "[", "[]", "{}", '{"shop.log":1}', '{"shop.log":["u"]}', '{"shop.log":["u","x"]}']
)
def test_what_nobody_can_read_is_computed_anew(text):
    now = progress(QUERY, [LOG])
    summary = {**now.summary(), "ingest.query-sources": text, "ingest.query-final": "-"}

    assert why_anew(said(now.source, summary), now, [LOG]) == "shop.log was made again"


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (LOG, ""),
        (source("shop.log", [11, 20], head=2), ""),
        (source("shop.log", [10, 20, 5], head=2), ""),
        (source("shop.log", [9, 25], head=2), "t/0 goes on below where it was"),
        (source("shop.log", [10], head=2), "t/1 goes on below where it was"),
        (source("shop.log", [10, 20], uuid="v"), "shop.log was made again"),
        (source("shop.log", [15, 20], head=3, lost=(1,)), "shop.log was rolled back"),
        (source("shop.log", [15, 20], head=3, lost=(7,)), ""),
        (source("shop.log", [15, 20], ids={"t": "new"}), "topic t was made again"),
        (source("shop.log", [15, 20], cuts={("t", 1): 5}), "t/1 was cut back"),
    ],
)
def test_all_is_computed_anew_where_a_source_is_not_what_it_was(later, why):
    assert why_anew(progress(QUERY, [LOG]), progress(QUERY, [later]), [later]) == why


def test_another_query_gives_other_rows():
    others = [
        QUERY.model_copy(update=one)
        for one in ({"sql": "SELECT 1 AS id"}, {"key": ("x",)}, {"changes": {"a.b": "c"}})
    ]
    assert len({fingerprint(one) for one in (QUERY, *others)}) == 4
    assert fingerprint(QUERY.model_copy(update={"every": "3s", "properties": {"a": "b"}})) == fingerprint(
        QUERY
    )
    assert why_anew(progress(QUERY, [LOG]), progress(others[0], [LOG]), [LOG]) == "the query is another one"
    assert why_anew(None, progress(QUERY, [LOG]), [LOG]) == "nothing is known of its rows"


def test_the_event_time_is_the_least_that_all_changes_have_reached():
    both = QUERY.model_copy(update={"changes": {"shop.log": "a", "shop.more": "b"}})
    first, second = (
        source(name, [1], valid_through_ms=ms) for name, ms in (("shop.log", 7), ("shop.more", 5))
    )

    assert reached_ms(both, [first, second, source("shop.x", [1], valid_through_ms=1)]) == 5
    assert reached_ms(both, [first, replace(second, valid_through_ms=None)]) is None


def test_new_rows_are_those_that_a_query_has_not_seen():
    """By a scan of plain tuples."""
    for seed in range(200):
        choose = random.Random(seed)
        rows = [
            (topic, number, offset) for topic in ("a'b", "t") for number in range(3) for offset in range(6)
        ]
        ends, seen = (
            {(topic, number): choose.randrange(7) for topic, number, _ in rows if choose.random() < 0.7}
            for _ in range(2)
        )
        condition = new_rows(Progress(Source(vector_of(seen))), Source(vector_of(ends)))
        text = (condition or "False").replace("`_topic`", "topic").replace("`_topic_partition`", "number")
        text = (
            text.replace("`_offset`", "offset")
            .replace(" = ", " == ")
            .replace("AND", "and")
            .replace("OR", "or")
        )
        names = ("topic", "number", "offset")
        found = [one for one in rows if eval(text, dict(zip(names, one, strict=True)))]  # noqa: S307 (our own text)

        there = [one for one in rows if one[2] < ends.get(one[:2], 0)]
        assert {one for one in there if one[2] >= seen.get(one[:2], 0)} == {
            one for one in found if one in there
        }


def test_the_sql_of_rows_has_the_columns_of_the_table_and_a_comment_ends_with_its_line():
    columns = {"id": "BIGINT", "a`b": "STRING", "old": "INT"}
    sql = rows_sql("SELECT 1 AS id -- one", ["id"], columns, ["ID", "a`b"], "touched", "`id` IN (1)")

    assert (
        "CAST(q.`id` AS BIGINT) AS `id`, CAST(q.`a``b` AS STRING) AS `a``b`, CAST(NULL AS INT) AS `old`"
        in sql
    )
    assert "-- one\n) WHERE `id` IN (1)) q LEFT SEMI JOIN touched t ON q.`id` = t.`id`" in sql


def test_a_table_that_is_computed_from_itself_is_found():
    reads = {"a": {"b", "x"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"x"}}

    assert [name for name in "abcdefx" if is_circle(reads, name)] == ["a", "b", "c"]


def test_a_topic_of_which_not_all_tables_are_of_the_new_one_is_waited_for():
    assert topic_of_two([LOG, source("shop.mirror", [1])]) == ""
    assert topic_of_two([LOG, source("shop.mirror", [1], ids={"t": "new"})]) == "t"
