"""A token that expired with its snapshot: the next one says again all that the table has, of all its topics."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, kept_token, property_name
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.known_in_marks import known_of
from isotherm_ingest.mark_text import Mark
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.holes import Lost
from isotherm_ingest.plan.known import Known
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake
from isotherm_ingest.tables.offset_vector import Source, encode
from isotherm_ingest.tables.portion import Halted
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import TableWriter
from support.writes import NAME, ONE_ROW, TOPIC, DeadLetters, Spark, portion

OTHER = "shop.public.customers"


@pytest.fixture
def lake(tmp_path):
    return Lake(
        "lake",
        {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/warehouse",
        },
    )


def made(lake):
    lake.catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType()))
    return lake.catalog.create_table(NAME, schema, properties={PIPELINE_PROPERTY: "shop"})


def says(end):
    return {
        INGEST_PIPELINE: "shop",
        INGEST_TOKEN: encode(Source({TOPIC: {0: end}}, "cluster", {TOPIC: "id"})),
    }


def edited(lake, table, change):
    """The table with metadata that somebody else has written."""
    path = Path(table.metadata_location.removeprefix("file://"))
    said = json.loads(path.read_text())
    change(said)
    other = path.with_name(f"99999-{path.name}")
    other.write_text(json.dumps(said))
    lake.catalog.drop_table(NAME)
    return lake.catalog.register_table(NAME, f"file://{other}")


def cut(said):
    """An expiry that takes the oldest snapshot."""
    said["snapshots"], said["snapshot-log"] = said["snapshots"][1:], said["snapshot-log"][1:]


def expired(lake):
    """A table that has rows of this pipeline, with an expiry that left the newest snapshot, which is somebody else's."""
    table = made(lake)
    table.append(ONE_ROW)
    table.append(ONE_ROW)
    return edited(lake, table, cut)


def rolled_back(lake):
    """A table that was rolled back to where no token is left; its property has the one of the snapshot that was left."""
    table = made(lake)
    table.append(ONE_ROW, snapshot_properties=says(2))
    table.append(ONE_ROW)
    back_to = table.current_snapshot().snapshot_id
    table.append(ONE_ROW, snapshot_properties=says(5))
    with table.transaction() as tx:
        tx.set_properties(
            {
                property_name("shop"): kept_token(
                    says(5)[INGEST_TOKEN], 3, table.current_snapshot().snapshot_id
                )
            }
        )

    def back(said):
        cut(said)
        said["current-snapshot-id"] = said["refs"]["main"]["snapshot-id"] = back_to
        said["snapshot-log"].append({"snapshot-id": back_to, "timestamp-ms": said["last-updated-ms"]})

    return edited(lake, table, back)


@pytest.mark.parametrize("on_hole", ["halt", "backfill"])
@pytest.mark.parametrize("is_committed_to", [False, True])
def test_a_table_that_was_rolled_back_says_so_whoever_commits_to_it_then(lake, on_hole, is_committed_to):
    """The next commit has a higher number than the snapshot that the property is from, and does not follow it."""
    table = rolled_back(lake)
    if is_committed_to:
        table.append(ONE_ROW)
    had = {(TOPIC, 0): 5}
    known = Known(str(table.metadata.table_uuid), had, had, {TOPIC: "id"})
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog", on_hole=on_hole)
    tools = Tools(lake, None, DeadLetters(), Metrics(), "shop", None)
    writer = TableWriter(NAME, stream, Sessions(Spark()), tools)

    with pytest.raises(Halted) as halted:
        writer.prepare(replace(portion(5, 7), known=known))
    assert [one.why for one in halted.value.place.halted] == [Lost.ROLLED_BACK]
    # Where the marks are lost too, nobody knows what it has.
    with pytest.raises(TableRefused, match="could double its rows"):
        writer.prepare(portion(0, 7))


@pytest.mark.parametrize("on_hole", ["halt", "backfill"])
def test_a_property_that_is_older_than_tokens_that_others_expired_says_nothing(lake, on_hole):
    """The daemon has kept one, ingest wrote on, and then somebody else's expiry took what it wrote."""
    table = made(lake)
    table.append(ONE_ROW, snapshot_properties=says(3))
    with table.transaction() as tx:
        kept = kept_token(says(3)[INGEST_TOKEN], 1, table.current_snapshot().snapshot_id)
        tx.set_properties({property_name("shop"): kept})
    table.append(ONE_ROW, snapshot_properties=says(5))
    table.append(ONE_ROW)
    table = edited(lake, table, lambda said: (cut(said), cut(said)))
    had = {(TOPIC, 0): 5}
    known = Known(str(table.metadata.table_uuid), had, had, {TOPIC: "id"})
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog", on_hole=on_hole)
    tools = Tools(lake, None, DeadLetters(), Metrics(), "shop", None)
    writer = TableWriter(NAME, stream, Sessions(Spark()), tools)
    look = writer.prepare(replace(portion(3, 7), known=known)).look

    # Rows 3 and 4 are there already, and nothing was lost.
    assert (look.from_offsets, look.place.told) == ({(TOPIC, 0): 5}, ())
    with pytest.raises(TableRefused, match="could double its rows"):
        writer.prepare(portion(3, 7))


@pytest.mark.parametrize("on_hole", ["halt", "backfill"])
def test_a_rollback_that_halts_a_table_halts_it_when_what_shows_it_has_expired(lake, on_hole):
    table = rolled_back(lake)
    table.append(ONE_ROW)
    table = edited(lake, table, lambda said: (cut(said), cut(said)))
    assert [one.parent_snapshot_id is None for one in table.metadata.snapshots] == [False]
    had = {(TOPIC, 0): 5}
    known = Known(str(table.metadata.table_uuid), had, had, {TOPIC: "id"}, is_halted=True)
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog", on_hole=on_hole)
    tools = Tools(lake, None, DeadLetters(), Metrics(), "shop", None)
    writer = TableWriter(NAME, stream, Sessions(Spark()), tools)

    with pytest.raises(Halted):
        writer.prepare(replace(portion(5, 7), known=known))
    with pytest.raises(TableRefused, match="could double its rows"):
        writer.prepare(portion(5, 7))


@pytest.mark.parametrize("on_hole", ["halt", "backfill"])
def test_a_rollback_to_where_no_token_is_left_is_told_while_what_was_left_is_there(lake, on_hole):
    """Others had expired all tokens before the last one, and there was no property."""
    table = made(lake)
    table.append(ONE_ROW, snapshot_properties=says(3))
    table.append(ONE_ROW)
    table = edited(lake, table, cut)
    back_to = table.current_snapshot().snapshot_id
    table.append(ONE_ROW, snapshot_properties=says(5))
    table.refresh().manage_snapshots().rollback_to_snapshot(back_to).commit()
    had = {(TOPIC, 0): 5}
    known = Known(str(table.metadata.table_uuid), had, had, {TOPIC: "id"})
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog", on_hole=on_hole)
    tools = Tools(lake, None, DeadLetters(), Metrics(), "shop", None)
    writer = TableWriter(NAME, stream, Sessions(Spark()), tools)

    with pytest.raises(Halted) as halted:
        writer.prepare(replace(portion(5, 7), known=known))
    assert [one.why for one in halted.value.place.halted] == [Lost.ROLLED_BACK]
    with pytest.raises(TableRefused, match="could double its rows"):
        writer.prepare(portion(5, 7))


def test_where_an_expiry_took_the_parents_too_nothing_is_filled(lake):
    """As PyIceberg's does. Nobody knows what the table has, and all of it would be written once more."""
    table = made(lake)
    table.append(ONE_ROW, snapshot_properties=says(3))
    table.append(ONE_ROW)

    def expire(said):
        cut(said)
        del said["snapshots"][0]["parent-snapshot-id"]

    table = edited(lake, table, expire)
    had = {(TOPIC, 0): 3}
    known = Known(str(table.metadata.table_uuid), had, had, {TOPIC: "id"})
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog", on_hole="backfill")
    tools = Tools(lake, None, DeadLetters(), Metrics(), "shop", None)

    with pytest.raises(Halted) as halted:
        TableWriter(NAME, stream, Sessions(Spark()), tools).prepare(replace(portion(3, 7), known=known))
    assert [one.why for one in halted.value.place.halted] == [Lost.ROLLED_BACK]


def test_the_next_token_says_what_the_table_has_of_all_its_topics(lake):
    table = expired(lake)
    had = {(TOPIC, 0): 5, (OTHER, 0): 4, (OTHER, 1): 2}
    known = Known(str(table.metadata.table_uuid), had, had, {TOPIC: "id", OTHER: "other id"})
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog")
    tools = Tools(lake, None, DeadLetters(), Metrics(), "shop", None)
    writer = TableWriter(NAME, stream, Sessions(Spark()), tools)
    look = writer.prepare(replace(portion(5, 7), known=known)).look

    assert look.source.vector == {TOPIC: {0: 7}, OTHER: {0: 4, 1: 2}}
    assert look.source.topic_ids == {TOPIC: "id", OTHER: "other id"}
    assert look.from_offsets == {}


@pytest.mark.parametrize("on_hole", ["halt", "backfill", "accept"])
def test_what_found_room_in_the_marks_of_some_partitions_only_is_not_taken_for_all_that_the_table_has(
    lake, on_hole
):
    """It would be written once more from where the others begin."""
    uuid = str(expired(lake).metadata.table_uuid)
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog", on_hole=on_hole)
    tools = Tools(lake, None, DeadLetters(), Metrics(), "shop", None)
    writer = TableWriter(NAME, stream, Sessions(Spark()), tools)
    tables = {NAME: (uuid, 9, 9)}
    marks = {(TOPIC, 0): Mark(9, "id", is_whole=False), (TOPIC, 1): Mark(9, "id", tables)}
    with pytest.raises(TableRefused, match="no token"):
        writer.prepare(replace(portion(0, 7), known=known_of(marks, NAME)))

    marks[TOPIC, 0] = Mark(9, "id")  # of which the table has had nothing
    assert writer.prepare(replace(portion(0, 7), known=known_of(marks, NAME))).look.from_offsets == {}


def test_a_restored_table_of_which_an_announcement_alone_tells_is_not_accepted_in_the_place_of_another(lake):
    """It has rows, and nobody knows up to where: all of them would be written once more."""
    expired(lake)
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog", on_hole="accept")
    writer = TableWriter(
        NAME, stream, Sessions(Spark()), Tools(lake, None, DeadLetters(), Metrics(), "shop", None)
    )
    known = known_of({(TOPIC, 0): Mark(9, "id", is_whole=False)}, NAME, lambda _: "another-uuid")

    with pytest.raises(TableRefused, match="no token"):
        writer.prepare(replace(portion(0, 7), known=known))


@pytest.mark.parametrize("on_hole", ["halt", "backfill", "accept"])
@pytest.mark.parametrize("noted", [(), ((TOPIC, 0),)], ids=["a uuid alone", "what is noted alone"])
def test_where_only_the_table_is_known_and_not_its_place_nothing_is_written(lake, on_hole, noted):
    """As after a look while no partition had a leader. All rows were written once more, and nobody was told."""
    table = expired(lake)
    known = Known(
        str(table.metadata.table_uuid), {}, dict.fromkeys(noted, 0), {TOPIC: "id"}, noted=frozenset(noted)
    )
    stream = Stream(topics="shop.*", table="shop.orders", mode="changelog", on_hole=on_hole)
    writer = TableWriter(
        NAME, stream, Sessions(Spark()), Tools(lake, None, DeadLetters(), Metrics(), "shop", None)
    )

    with pytest.raises(TableRefused, match="could double its rows"):
        writer.prepare(replace(portion(0, 7), known=known))
