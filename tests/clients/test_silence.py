"""A catalog or a store that does not answer stops nothing for ever."""

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.clients.catalog import open_catalog
from isotherm.clients.retries import ATTEMPTS
from isotherm.clients.storage import RetryingFileIO, properties_with_retries
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import NotAsked, TableMissing, TableSilent, Unavailable
from support.http_front import http_front
from support.memory_topics import Clock
from support.rest_answers import rest
from support.servers import Hang, http_server, silent_server

KEYS = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
AWS = {"glue.region": "us-east-1", "glue.access-key-id": "a", "glue.secret-access-key": "b"}


def test_a_rest_catalog_that_never_answers_is_unavailable():
    with silent_server() as server:
        with pytest.raises(Unavailable, match="timed out"):
            connect(rest(server.url))

        assert len(server.connections) == 1


def test_a_signed_rest_catalog_that_never_answers_is_unavailable_after_three_attempts():
    signed = {"rest.sigv4-enabled": "true", "rest.signing-region": "us-east-1"}
    keys = {"client.access-key-id": "a", "client.secret-access-key": "b", "client.region": "us-east-1"}
    with silent_server() as server:
        with pytest.raises(Unavailable, match="timed out"):
            connect(rest(server.url, **signed, **keys))

        assert len(server.connections) == 3


def test_a_token_that_never_comes_is_unavailable():
    with (
        silent_server() as tokens,
        http_server(lambda *_: (200, {"defaults": {}, "overrides": {}})) as catalog,
    ):
        with pytest.raises(Unavailable, match="timed out"):
            connect(rest(catalog, credential="a:b", **{"oauth2-server-uri": tokens.url}))

        assert len(tokens.connections) == 1


def test_a_provider_of_tokens_that_falls_silent_is_unavailable():
    """PyIceberg's own manager (`auth.type: oauth2`) asks it without a time-out, and has everybody wait meanwhile."""
    is_silent = []

    def token(_, __):
        if is_silent:
            raise Hang
        # PyIceberg asks for another one a minute before the end.
        return 200, {"access_token": "t", "token_type": "bearer", "expires_in": 60}

    def answer(_, path):
        return 200, {"defaults": {}, "overrides": {}} if "config" in path else {"namespaces": [["shop"]]}

    with http_server(token) as tokens, http_server(answer) as url:
        account = {"client_id": "a", "client_secret": "b", "token_url": tokens}
        auth = {"type": "oauth2", "oauth2": account}
        catalog = IcebergCatalog(open_catalog("lake", {"type": "rest", "uri": url, "auth": auth}, 0.2))
        catalog.ask()
        is_silent.append(True)
        with pytest.raises(Unavailable, match="timed out"):
            catalog.ask()


def test_a_rest_catalog_that_falls_silent_later_is_unavailable():
    asked = []

    def answer(_, path):
        asked.append(path)
        if path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {}}
        raise Hang

    with http_server(answer) as url:
        catalog = IcebergCatalog(connect(rest(url)))
        with pytest.raises(Unavailable, match="timed out"):
            catalog.load("shop.orders")

    assert asked == ["/v1/config", "/v1/namespaces/shop/tables/orders?snapshots=all", "/v1/namespaces"]


def test_a_catalog_that_hangs_only_in_the_question_about_one_table_is_asked_about_the_next_one_at_once():
    def answer(_, path):
        if "orders" in path:
            raise Hang
        if "tables" in path:
            return 404, {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}
        return 200, {"defaults": {}, "overrides": {}, "namespaces": [["shop"]]}

    with http_server(answer) as url:
        catalog = IcebergCatalog(connect(rest(url)))
        for _ in range(2):
            with pytest.raises(TableSilent, match=r"timed out.*; the catalog answers otherwise"):
                catalog.load("shop.orders")
            with pytest.raises(TableMissing):
                catalog.load("shop.items")


def test_a_catalog_that_did_not_answer_is_not_asked_for_the_next_table_at_once():
    asked, is_back, clock = [], [], Clock()

    def answer(_, path):
        if path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {}}
        asked.append(path)
        if is_back:
            return 404, {"error": {"message": "no such table", "type": "NoSuchTableException", "code": 404}}
        raise Hang

    with http_server(answer) as url:
        catalog = IcebergCatalog(connect(rest(url)), breaker=Breaker(clock.monotonic_s))
        with pytest.raises(Unavailable, match="timed out"):
            catalog.load("shop.orders")
        for name in ("shop.orders", "shop.items"):
            with pytest.raises(NotAsked, match="asked again in 5 s"):
                catalog.load(name)
        with pytest.raises(NotAsked):
            catalog.names()
        assert asked == ["/v1/namespaces/shop/tables/orders?snapshots=all", "/v1/namespaces"]
        clock.advance(5)
        is_back.append(True)
        for name in ("shop.orders", "shop.items"):
            with pytest.raises(TableMissing):
                catalog.load(name)


def test_an_answer_that_trickles_in_is_given_up_as_a_whole():
    """Each byte comes well within the time-out, and the last one never."""

    def answer(_, path):
        return 200, {"defaults": {}, "overrides": {}}

    with http_server(answer) as upstream, http_front(upstream) as front:
        catalog = connect(rest(front.url))
        front.add("GET", "/v1/namespaces", "trickle")
        with pytest.raises(Unavailable, match=r"timed out: \d+ bytes came"):
            IcebergCatalog(catalog).names()


def test_nobody_at_the_address_of_a_rest_catalog_is_unavailable():
    with silent_server() as server:
        port = server.port
    with pytest.raises(Unavailable, match="Connection refused"):
        connect(rest(f"http://127.0.0.1:{port}"))


def test_glue_that_never_answers_is_unavailable_after_three_attempts():
    with silent_server() as server:
        config = CatalogConfig(properties={"type": "glue", "glue.endpoint": server.url, **AWS}, timeout_s=0.2)
        catalog = IcebergCatalog(connect(config))
        with pytest.raises(Unavailable, match=r"[Tt]ime"):
            catalog.load("shop.orders")

        assert len(server.connections) == 3 * 2, "about the table, and for the namespaces"
        assert all(isinstance(text, str) for text in catalog.catalog.properties.values())


def test_a_hive_metastore_that_never_answers_is_unavailable():
    with silent_server() as server:
        address = server.url.replace("http://", "thrift://")
        config = CatalogConfig(properties={"type": "hive", "uri": address}, timeout_s=0.2)
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"[Tt]ime"):
                IcebergCatalog(connect(config)).load("shop.orders")

        assert len(server.connections) == 2


@pytest.mark.parametrize("hangs_up", [True, False])
def test_a_store_that_does_not_answer_is_asked_once_by_each_attempt_of_ours(hangs_up):
    """PyArrow's three attempts, multiplied by our six, took minutes for one read."""
    with silent_server(hangs_up=hangs_up) as server:
        properties = properties_with_retries({"s3.endpoint": server.url, "s3.request-timeout": "1", **KEYS})
        file = PyArrowFileIO(properties).new_input("s3://lake/a")
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            file.exists()

        assert len(server.connections) == 1


def test_a_store_that_did_not_answer_is_not_asked_for_the_next_file_at_once():
    with silent_server(hangs_up=True) as server:
        files = RetryingFileIO(
            properties_with_retries({"s3.endpoint": server.url, "s3.request-timeout": "1", **KEYS})
        )
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            files.new_input("s3://lake/a").open()
        asked = len(server.connections)
        for ask in (
            files.new_input("s3://lake/b").open,
            files.new_output("s3://lake/c").create,
            lambda: files.delete("s3://lake/d"),
        ):
            with pytest.raises(OSError, match="s3://lake did not answer; it is asked again"):
                ask()

        assert asked == ATTEMPTS
        assert len(server.connections) == asked


def test_time_outs_of_a_store_are_short_unless_the_operator_says_otherwise():
    ours = properties_with_retries({})

    assert (ours["s3.connect-timeout"], ours["s3.request-timeout"]) == ("5", "20")
    assert properties_with_retries({"s3.request-timeout": "90"})["s3.request-timeout"] == "90"
