"""Messages that nobody can read or that belong nowhere are dead letters, each sent once."""

import pytest

from isotherm_ingest.failures import CatalogAway
from support.pipelines import ORDERS, messages
from support.wire import DECIMAL, message


def test_dead_letters_are_sent_once_while_the_catalog_is_away(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.lake.away = True
    pipeline.send(
        *messages(ORDERS, 1, schema=8, value='{"schema": {}, "payload": {"op": "c"}}'), *messages(ORDERS, 2)
    )
    for _ in range(5):
        with pytest.raises(CatalogAway):
            pipeline.minute()
    pipeline.lake.away = False
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 2]
    assert len(pipeline.dead_letters.sent) == 1


def test_a_schema_that_nobody_foresaw_keeps_no_topic_from_being_read(pipeline):
    parameters = {"scale": float("inf")}
    field = {"field": "id", "type": "bytes", "name": DECIMAL, "parameters": parameters}
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 1, schema=8, value=message([field]).decode()))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 2]
    assert [one.offset for one in pipeline.dead_letters.sent] == [1]


def test_a_message_that_nobody_can_read_and_a_table_that_is_behind_are_no_reason_to_lose_it(pipeline):
    """The driver before knew the schema, and left it to the table. This one does not, and the slice has no other message."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors["shop.orders"] = RuntimeError("its disk is full")
    pipeline.send(*messages(ORDERS, 1, is_readable=False))
    pipeline.minute()
    assert pipeline.dead_letters.sent == []

    pipeline.errors.clear()
    pipeline.start()
    pipeline.send(*messages(ORDERS, 2, is_readable=False))
    pipeline.minute()
    pipeline.start()
    pipeline.minute()

    # The second one was sent on when the front passed it, as one that belongs to no table.
    assert sorted(one.offset for one in pipeline.dead_letters.sent) == [1, 2]
    assert not pipeline.is_left_out("orders")


def test_files_of_a_batch_whose_dead_letters_cannot_be_sent_are_deleted(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.dead_letters.is_full = True
    pipeline.send(
        *messages(ORDERS, 1), *messages(ORDERS, 2, schema=8, value='{"schema": {}, "payload": {"op": "c"}}')
    )
    forgotten = len(pipeline.lake.forgotten)
    pipeline.now_s += 60
    pipeline.turn()

    # Once where the new schema comes back as a sample, and once where its message cannot be sent.
    assert (pipeline.rows("orders"), len(pipeline.lake.forgotten)) == ([0], forgotten + 2)
    pipeline.dead_letters.is_full = False
    pipeline.minute()
    assert (pipeline.rows("orders"), len(pipeline.lake.forgotten)) == ([0, 1], forgotten + 2)


def test_messages_that_belong_nowhere_are_dead_letters_once(pipeline):
    nameless = messages(ORDERS, 1, schema=8, value='{"schema": {}, "payload": {"op": "c"}}')
    pipeline.send(*messages(ORDERS, 0), *nameless)
    pipeline.minute()
    pipeline.start()
    pipeline.minute()

    assert [(one.topic, one.offset) for one in pipeline.dead_letters.sent] == [(ORDERS, 1)]
    assert pipeline.rows("orders") == [0]
