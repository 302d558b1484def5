"""What a table is stands on the table; a change of it is refused."""

import pytest

from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.definition import definition, key_of, missing_properties, of_other_sources
from isotherm_ingest.tables.portion import Group
from support.messages import envelope, key

NAME = "shop.orders"


def stream(mode="mirror", columns=()):
    return Stream(topics="shop.*", table=NAME, mode=mode, key=columns)


def group(*columns):
    message = envelope("orders", ("id", "int64"), ("part", "int64"))
    return Group(
        "shop.public.orders", hash(columns), change_schema(message, key(*columns) if columns else None)
    )


def test_the_key_is_that_of_the_messages_unless_the_stream_says_another():
    assert key_of(NAME, stream(), [group("id")]) == ("id",)
    assert key_of(NAME, stream(columns=("part",)), [group("id"), group("id", "part")]) == ("part",)
    assert key_of(NAME, stream("changelog"), [group("id"), group("part")]) == ()


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([group("id"), group("id", "part")], "messages of two keys, (id) and (id, part)"),
        ([group()], "has no key"),
    ],
)
def test_a_mirror_needs_one_key(groups, words):
    with pytest.raises(TableRefused) as refused:
        key_of(NAME, stream(), groups)
    assert words in str(refused.value)


def test_a_message_without_a_key_is_kept_by_that_of_the_others():
    assert key_of(NAME, stream(), [group(), group("id")]) == ("id",)


def of_source(topic, schema):
    text = envelope("orders", ("id", "int64")).replace('"public"', f'"{schema}"')
    return Group(topic, hash((topic, schema)), change_schema(text, key("id")))


def test_a_mirror_that_is_named_for_its_source_has_the_rows_of_one():
    """Source tables of one name in two schemas would overwrite each other's rows."""
    named = Stream(topics="shop.*", table="shop.{table}")
    first, second = of_source("shop.public.orders", "public"), of_source("shop.other.orders", "other")
    said = definition(named, ["id"], [first])

    assert said["ingest.source-topic"] == "shop.public.orders"
    for properties in ({}, said):
        refused = of_other_sources(NAME, named, [first, second], properties)
        assert list(refused) == [second]
        assert refused[second].startswith("other_table:shop.orders has the rows of topic shop.public.orders")
    assert list(of_other_sources(NAME, named, [second], said)) == [second]
    assert missing_properties(NAME, named, ["id"], definition(named, ["id"]), [first]) == {
        "ingest.source-topic": "shop.public.orders"
    }


def test_a_router_that_brings_several_tables_into_one_topic_is_one_source():
    named = Stream(topics="shop.*", table="shop.{table}")
    both = [of_source("shop.all", "a"), of_source("shop.all", "b")]

    assert of_other_sources(NAME, named, both, definition(named, ["id"], both)) == {}


def test_a_mirror_that_an_earlier_version_made_is_of_the_topic_that_it_has_rows_of():
    named = Stream(topics="shop.*", table="shop.{table}")
    staging, orders = of_source("shop.staging.orders", "staging"), of_source("shop.public.orders", "public")

    assert list(of_other_sources(NAME, named, [staging, orders], {}, {"shop.public.orders"})) == [staging]
    # Whoever has the shards of a table in it goes on to.
    assert (
        of_other_sources(NAME, named, [staging, orders], {}, {"shop.public.orders", "shop.staging.orders"})
        == {}
    )
    assert "ingest.source-topic" not in definition(named, ["id"], [staging, orders])
    both = {"shop.public.orders", "shop.staging.orders"}
    assert "ingest.source-topic" not in missing_properties(NAME, named, ["id"], {}, [orders], both)
    assert "ingest.source-topic" in missing_properties(
        NAME, named, ["id"], {}, [orders], {"shop.public.orders"}
    )
    assert "ingest.key" not in definition(named, [])


@pytest.mark.parametrize(
    "more",
    [
        {"table": "shop.orders"},
        {"table": "shop.{table}", "sources": "many"},
        {"table": "shop.{table}", "mode": "changelog"},
    ],
)
def test_shards_of_one_table_become_one_mirror_where_the_stream_says_so(more):
    both = [of_source("a.public.orders", "public"), of_source("b.public.orders", "public")]
    one = Stream(topics=".*", **more)

    assert of_other_sources(NAME, one, both, {}) == {}
    assert "ingest.source-topic" not in definition(one, ["id"], both)


def test_a_table_of_an_earlier_version_is_told_what_it_is():
    said = definition(stream(), ["id"])

    assert missing_properties(NAME, stream(), ["id"], {}) == said
    assert missing_properties(NAME, stream(), ["id"], said) == {}


@pytest.mark.parametrize(
    ("now", "columns", "words"),
    [
        (stream("changelog"), (), "is a mirror, and its stream says changelog"),
        (
            stream(),
            ("id", "part"),
            'is kept by ["id"], and its stream or its messages now say ["id", "part"]',
        ),
    ],
)
def test_what_a_table_is_does_not_change_by_itself(now, columns, words):
    with pytest.raises(TableRefused) as refused:
        missing_properties(NAME, now, columns, definition(stream(), ["id"]))
    assert words in str(refused.value)
    assert "on_hole: backfill" in str(refused.value)
