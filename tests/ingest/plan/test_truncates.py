"""Whether a truncate empties a table: only where no row can be of behind it, or of another source."""

from dataclasses import replace

import pytest

from isotherm_ingest.plan.truncates import Emptied, Origin, Truncates, emptied

TOPIC, OTHER = "shop.public.orders", "eu.public.orders"
FOUND = Truncates({(TOPIC, 0): 7}, {TOPIC: 1})
ORIGIN = Origin({(TOPIC, 0)}, {TOPIC: {("public", "orders")}}, doubt="")


def test_a_truncate_of_a_topic_with_one_partition_empties_its_mirror():
    assert emptied(FOUND, {(TOPIC, 0): 7}, ORIGIN) == Emptied({(TOPIC, 0): 7})
    assert emptied(FOUND, {(TOPIC, 0): 3}, replace(ORIGIN, has=())) == Emptied({(TOPIC, 0): 7})


def test_one_that_the_table_has_behind_it_is_none():
    assert emptied(FOUND, {(TOPIC, 0): 8}, ORIGIN) == Emptied()
    assert emptied(Truncates(), {(TOPIC, 0): 0}, ORIGIN) == Emptied()


@pytest.mark.parametrize(
    ("found", "origin", "why"),
    [
        (replace(FOUND, counts={TOPIC: 2}), {}, "the topic has 2 partitions"),
        (Truncates({(TOPIC, 1): 7}, {TOPIC: 2}), {"has": ()}, "the topic has 2 partitions"),
        (FOUND, {"has": {(TOPIC, 0), (TOPIC, 1)}}, "the topic has 2 partitions"),
        (FOUND, {"has": {(TOPIC, 0), (OTHER, 0)}}, "the table has rows of other topics, as of eu.public"),
        (FOUND, {"sources": {**ORIGIN.sources, OTHER: {("public", "orders")}}}, "the table has rows of other topics"),
        (
            Truncates({(TOPIC, 0): 7, (OTHER, 0): 3}, {TOPIC: 1, OTHER: 1}),
            {"sources": {**ORIGIN.sources, OTHER: {("public", "orders")}}, "own": TOPIC},
            "the table has rows of other topics",
        ),
        (FOUND, {"sources": {TOPIC: {("public", "orders_2024")}}}, "neither the topic (….schema.table) nor the table is named"),
        (FOUND, {"sources": {TOPIC: {("lic", "orders")}}}, "neither the topic (….schema.table) nor the table is named"),
        (
            FOUND,
            {"sources": {TOPIC: {("public", "orders"), ("public", "lines")}}},
            "neither the topic (….schema.table) nor the table is named",
        ),
        (FOUND, {"doubt": "the table does not say"}, "the table does not say"),
        (replace(FOUND, among_others=True), {}, "changes of another source"),
        (FOUND, {"sources": {TOPIC: {("", "orders")}}}, "neither the topic (….schema.table) nor the table is named"),
    ],
)  # fmt: skip
def test_where_no_order_is_known_it_empties_nothing(found, origin, why):
    told = emptied(found, {(TOPIC, 0): 0, (OTHER, 0): 0}, replace(ORIGIN, **origin))

    assert told.below == {}
    assert told.why_not.startswith(why)


def test_a_partition_of_which_the_table_needs_something_counts_whatever_a_broker_that_is_behind_says():
    told = emptied(FOUND, {(TOPIC, 0): 0, (TOPIC, 1): 0}, ORIGIN)

    assert (told.below, told.why_not) == ({}, "the topic has 2 partitions, between which there is no order")


def test_rows_of_an_older_topic_are_of_the_source_that_has_moved():
    moved = replace(ORIGIN, has={(TOPIC, 0), (OTHER, 0), (OTHER, 1)}, own=TOPIC)

    assert emptied(FOUND, {}, moved) == Emptied({(TOPIC, 0): 7})


@pytest.mark.parametrize(
    ("topic", "source"),
    [
        ("orders", ("public", "orders")),
        ("shop.public.big_orders", ("public", "big orders")),
        ("shop.db.dbo.orders", ("dbo", "orders")),
    ],
)
def test_a_topic_of_another_name_is_of_one_source_where_each_message_is_checked(topic, source):
    found = Truncates({(topic, 0): 7}, {topic: 1})
    origin = Origin({(topic, 0)}, {topic: {source}}, doubt="")

    assert emptied(found, {}, replace(origin, is_of_one_source=True)).below
    assert bool(emptied(found, {}, origin).below) == (topic != "orders")
