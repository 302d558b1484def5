"""Windows that a driver grants: the table is left alone for as long as it has said, and catches up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.events import WindowClosed, WindowGranted, WindowRequested, encode
from isotherm_ingest.batches.windows import REST
from support.examples import examples
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages

SECONDLY = CONFIG.replace("every: 1m", "every: 1s").replace("batch_messages: 4", "batch_messages: 100")


@pytest.fixture
def shop():
    made = Pipeline(SECONDLY)
    made.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    made.minute()
    return made


def uuid(pipeline, table="orders"):
    return pipeline.lake.tables[f"shop.{table}"].uuid


def ask(pipeline, window_id="w-1", length_s=30.0, table="orders", **changes):
    values = {
        "table_uuid": uuid(pipeline, table),
        "table": f"shop.{table}",
        "window_id": window_id,
        "asked_by": "isotherm",
        "at_ms": 1,
        "length_ms": int(length_s * 1000),
    }
    pipeline.control.waiting.append(encode(WindowRequested(**(values | changes)))[1])


def close(pipeline, window_id="w-1", by="daemon", table="orders"):
    event = WindowClosed(
        table_uuid=uuid(pipeline, table), table=f"shop.{table}", window_id=window_id, by=by, at_ms=1
    )
    pipeline.control.waiting.append(encode(event)[1])


def granted(pipeline):
    return [one for one in pipeline.control.sent if isinstance(one, WindowGranted)]


def later(pipeline, seconds):
    """So much later, all that can be done is done."""
    pipeline.now_s += seconds
    for _ in range(50):
        if not pipeline.turn():
            return


def test_a_table_for_which_a_window_is_asked_is_left_alone_and_catches_up(shop):
    ask(shop)
    shop.send(*messages(ORDERS, 1), *messages(CUSTOMERS, 1))
    later(shop, 5)

    (grant,) = granted(shop)
    assert (grant.window_id, grant.writer, grant.length_ms) == ("w-1", "shop", 30_000)
    assert grant.snapshot_id == shop.lake.tables["shop.orders"].head
    assert (shop.rows("orders"), shop.rows("customers")) == ([0], [0, 1])

    shop.send(*messages(ORDERS, 2))
    later(shop, 31)

    assert shop.rows("orders") == [0, 1, 2]
    assert shop.sample("batches_failed_total") == 0
    assert shop.sample("windows_total", table="shop.orders", answer="granted") == 1


def test_a_window_that_is_closed_ends_at_once(shop):
    ask(shop)
    later(shop, 1)
    shop.send(*messages(ORDERS, 1))
    later(shop, 2)
    assert shop.rows("orders") == [0]

    close(shop)
    later(shop, 2)

    assert shop.rows("orders") == [0, 1]
    assert shop.sample("window_seconds_total", table="shop.orders") == 4


@pytest.mark.parametrize(("window_id", "by"), [("another", "daemon"), ("w-1", "writer")])
def test_what_closes_another_window_closes_none(shop, window_id, by):
    ask(shop)
    later(shop, 1)
    close(shop, window_id, by)
    shop.send(*messages(ORDERS, 1))
    later(shop, 2)

    assert shop.rows("orders") == [0]


def test_no_window_is_longer_than_what_is_allowed(shop):
    ask(shop, length_s=600)
    later(shop, 1)
    shop.send(*messages(ORDERS, 1))

    assert granted(shop)[0].length_ms == 60_000
    later(shop, 59)
    assert shop.rows("orders") == [0]
    later(shop, 1)
    assert shop.rows("orders") == [0, 1]


def test_a_table_is_left_alone_for_a_tenth_of_the_time_at_most(shop):
    ask(shop)
    later(shop, 1)
    later(shop, 30)
    for number in range(REST):
        ask(shop, f"again-{number}")
        later(shop, 29)
    assert len(granted(shop)) == 1
    later(shop, 10)
    ask(shop, "at last")
    later(shop, 1)

    assert [one.window_id for one in granted(shop)] == ["w-1", "at last"]
    assert shop.sample("windows_total", table="shop.orders", answer="refused") == REST


def test_of_several_requests_the_newest_counts(shop):
    for number in range(3):
        ask(shop, f"w-{number}")
    later(shop, 1)

    assert [one.window_id for one in granted(shop)] == ["w-2"]


def test_who_asks_anew_has_given_up_what_was_granted_before(shop):
    ask(shop)
    later(shop, 1)
    ask(shop, "w-2")
    shop.send(*messages(ORDERS, 1))
    later(shop, 2)

    assert shop.rows("orders") == [0, 1]
    assert len(granted(shop)) == 1


def test_a_request_that_was_closed_before_it_was_read_is_void(shop):
    ask(shop)
    close(shop)
    later(shop, 1)

    assert granted(shop) == []


def failing(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 1))
    later(pipeline, 2)


def unreadable(pipeline):
    pipeline.lake.unreadable.add("shop.orders")


def replaced(pipeline):
    before = pipeline.lake.tables["shop.orders"]
    pipeline.lake.tables["shop.orders"] = type(before)("another table", has=before.has)


@pytest.mark.parametrize("happens", [failing, unreadable, replaced])
def test_a_table_that_is_not_in_step_is_not_left_alone(shop, happens):
    wanted = uuid(shop)
    happens(shop)
    ask(shop, table_uuid=wanted)
    later(shop, 0)

    assert granted(shop) == []


def test_a_window_of_somebody_elses_table_is_none_of_ours(shop):
    ask(shop, table_uuid="theirs")
    later(shop, 1)

    assert shop.control.sent == []
    assert shop.sample("windows_total", table="shop.orders", answer="refused") is None


def test_where_nobody_knows_whether_the_grant_arrived_the_table_is_left_alone(shop):
    shop.control.is_away = True
    ask(shop)
    later(shop, 1)
    shop.send(*messages(ORDERS, 1))
    later(shop, 2)
    assert shop.rows("orders") == [0]

    later(shop, 30)
    assert shop.rows("orders") == [0, 1]


def test_where_the_catalog_is_away_no_more_than_one_table_is_waited_for(shop):
    """The next one would take as long, and batches wait meanwhile."""
    shop.lake.unreadable.update(("shop.orders", "shop.customers"))
    looked = []
    newest = shop.lake.newest

    def slow(name, *arguments):
        looked.append(name)
        return newest(name, *arguments)

    shop.lake.newest = slow
    ask(shop)
    ask(shop, "w-2", table="customers")
    shop.turn()

    assert len(looked) == 1
    assert granted(shop) == []


def test_a_driver_that_stops_takes_its_windows_back(shop):
    ask(shop)
    later(shop, 1)
    shop.driver.stop()

    (closed,) = [one for one in shop.control.sent if isinstance(one, WindowClosed)]
    assert (closed.window_id, closed.by, closed.writer) == ("w-1", "writer", "shop")


def test_a_driver_that_begins_again_knows_of_no_window(shop):
    ask(shop)
    later(shop, 1)
    shop.send(*messages(ORDERS, 1))
    shop.start()
    later(shop, 2)

    assert shop.rows("orders") == [0, 1]


def test_what_is_no_event_is_passed_over(shop):
    shop.control.waiting += [b"no JSON", b"{}"]
    ask(shop)
    later(shop, 1)

    assert len(granted(shop)) == 1


@examples(60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["ask", "close", "send", "wait"]), st.integers(0, 40), st.integers(1, 700)),
        max_size=25,
    )
)
def test_nothing_is_committed_in_a_window_and_at_last_every_row_is_there(story):
    shop = Pipeline(SECONDLY)
    shop.send(*messages(ORDERS, 0))
    shop.minute()
    sent, ends, began = 1, {}, shop.now_s
    for number, (what, seconds, length_s) in enumerate(story):
        if what == "ask":
            ask(shop, f"w-{number}", length_s)
            ends.clear()  # the one before is void
        elif what == "close" and granted(shop):
            close(shop, granted(shop)[-1].window_id)
            ends.clear()
        elif what == "send":
            shop.send(*messages(ORDERS, sent))
            sent += 1
        before, known = shop.rows("orders"), len(granted(shop))
        shop.now_s += seconds
        shop.turn()
        if len(granted(shop)) > known:
            grant = granted(shop)[-1]
            assert grant.length_ms <= 60_000
            ends[grant.window_id] = shop.now_s + grant.length_ms / 1000
        if any(shop.now_s < end_s for end_s in ends.values()):
            assert before == shop.rows("orders")
    for _ in range(4):
        shop.minute()

    assert shop.rows("orders") == list(range(sent))
    left_alone_s = shop.sample("window_seconds_total", table="shop.orders") or 0.0
    longest_turn_s = max([60, *(seconds for _, seconds, _ in story)])
    assert left_alone_s <= (shop.now_s - began) / (REST + 1) + 60 + longest_turn_s
