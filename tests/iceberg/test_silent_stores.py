"""A store that is silent is not taken for a catalog that is away: the tables elsewhere are looked at as before."""

import threading

import pytest

from isotherm.clients.retries import Store, of_the_store
from isotherm.clients.timeouts import Patience
from isotherm.iceberg.errors import is_no_answer, translated
from isotherm.runtime.breaker import Breaker
from isotherm.service.ports import StoreAway, Unavailable


def trickles():
    never = threading.Event()
    try:
        Store("s3://lake", Breaker(), Patience("s3://lake", 0.0)).ask(never.wait)
    finally:
        never.set()


def refuses():
    with of_the_store():
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize("silence", [trickles, refuses])
def test_the_silence_of_a_store_is_not_that_of_the_catalog(silence):
    with pytest.raises(StoreAway) as raised, translated("table shop.orders"):
        silence()

    assert not is_no_answer(raised.value)


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), TimeoutError("timed out")])
def test_a_connection_that_no_store_had_is_the_catalogs(error):
    with pytest.raises(Unavailable) as raised, translated("table shop.orders"):
        raise error

    assert is_no_answer(raised.value)
