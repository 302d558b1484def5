"""A store that says nothing keeps the loop for some seconds, whatever the loop asks of it."""

from threading import Event

import pytest

from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.iceberg.threads import THREADS
from isotherm.iceberg.values import loaded_table
from isotherm.iceberg.waited_for import WaitedFor
from isotherm.service.ports import StoreAway
from support.lab import Lab


@pytest.fixture
def over():
    over = Event()
    yield over
    over.set()


def test_a_store_that_was_silent_is_not_waited_for_again_and_another_is(over):
    now_s = [0.0]
    loop = WaitedFor(THREADS, lambda: now_s[0], wait_s=0.0)
    asked = []

    def work(_):
        asked.append(1)
        return 7

    with pytest.raises(StoreAway, match="gs://lake: not done after 0s"):
        loop.ask("gs://lake/t", lambda _: over.wait())
    with pytest.raises(StoreAway, match="gs://lake did not answer in time"):
        loop.ask("gs://lake/u", work)
    assert asked == []
    patient = WaitedFor(THREADS, lambda: now_s[0], wait_s=60.0)
    assert patient.ask("gs://other/t", work) == 7


def test_what_is_not_waited_for_any_more_begins_no_further_step(over):
    saw, ended = [], Event()

    def work(is_stopped):
        saw.append(is_stopped())
        over.wait()
        saw.append(is_stopped())
        ended.set()

    with pytest.raises(StoreAway):
        WaitedFor(THREADS, lambda: 0.0, wait_s=0.0).ask("gs://lake/t", work)
    over.set()

    assert ended.wait(10)
    assert saw[-1]


def test_the_loop_does_not_wait_for_a_store_that_deletes_nothing_and_says_nothing(tmp_path, over):
    lab = Lab(tmp_path)
    table = lab.create()

    class Hangs:
        def delete(self, _):
            over.wait()

    loaded = loaded_table(table, "shop.orders")
    table.io = Hangs()
    maintainer = IcebergMaintainer(lab.catalog, lab.executor, lab.now_ms, lambda: 0.0, store_wait_s=0.0)

    with pytest.raises(StoreAway):
        maintainer.delete_at_once(loaded, ["gs://lake/a", "gs://lake/b"])
    lab.executor.stop()
