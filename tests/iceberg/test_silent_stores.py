"""A store that is silent is not taken for a catalog that is away: the tables elsewhere are looked at as before."""

import os
import resource
import socket
import threading
from contextlib import contextmanager

import pytest
import requests

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


CURL_27 = "AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 27, Out of memory"


def test_a_process_that_has_no_file_left_blames_no_store_and_asks_it_again_at_once():
    breaker, faults = Breaker(), [OSError(CURL_27)]
    store = Store("s3://lake", breaker, Patience("s3://lake", 60.0))

    def ask():
        if faults:
            raise faults.pop()
        return "there"

    with (
        pytest.raises(StoreAway, match=r"has no file \(\d+ at most\) or no memory left") as raised,
        translated("table shop.orders"),
    ):
        store.ask(ask)
    assert not is_no_answer(raised.value)
    assert store.ask(ask) == "there"


def test_a_process_that_has_no_file_left_takes_no_catalog_for_away():
    """It could not even open a connection; `requests` has one error for that and for a server that is down."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with (
            pytest.raises(Unavailable, match="Too many open files") as raised,
            translated("table shop.orders"),
            no_file_left(),
        ):
            requests.get(f"http://127.0.0.1:{port}", timeout=5)

    assert not is_no_answer(raised.value)


@contextmanager
def no_file_left():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (held, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(held)


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), TimeoutError("timed out")])
def test_a_connection_that_no_store_had_is_the_catalogs(error):
    with pytest.raises(Unavailable) as raised, translated("table shop.orders"):
        raise error

    assert is_no_answer(raised.value)
