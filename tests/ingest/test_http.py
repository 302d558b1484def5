"""What the driver's port answers."""

import socket
import threading
from contextlib import ExitStack
from wsgiref.util import setup_testing_defaults

import pytest
from structlog.testing import capture_logs

from isotherm.contract.identity import TableId
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.http_server import KEPT_CONNECTIONS, application
from isotherm_ingest.announce.intents import Intents
from isotherm_ingest.http import HANGS_AFTER_S, Health, probes, serve
from isotherm_ingest.metrics import Metrics
from support.http_client import get
from support.messages import Broker, Session

TABLE = TableId("uuid", "shop.orders")


class Hanging:
    """A broker that takes a message and does not come back."""

    def __init__(self, broker):
        self.broker = broker
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()

    def send(self, records):
        self.is_asked.set()
        self.may_go_on.wait(60)
        self.broker.send(records)


def asked(path, health, now_s=100.0):
    environ, said = {"PATH_INFO": path}, []
    setup_testing_defaults(environ)
    environ["PATH_INFO"] = path
    body = application(Metrics().registry, probes(health, lambda: now_s))(
        environ, lambda status, _: said.append(status)
    )
    return said[0][:3], b"".join(body).decode()


def test_a_driver_is_ready_after_a_turn_that_went_well():
    health = Health(100.0)
    assert asked("/readyz", health) == ("503", "not begun yet\n")
    health.turned(100.0)
    assert asked("/readyz", health) == ("200", "ok\n")
    health.turned(100.0, "the catalog is away")
    assert asked("/readyz", health) == ("503", "the catalog is away\n")


@pytest.mark.parametrize(("age_s", "status"), [(HANGS_AFTER_S - 1, "200"), (HANGS_AFTER_S, "503")])
def test_only_a_driver_that_hangs_is_to_be_started_again(age_s, status):
    health = Health(100.0)
    health.turned(100.0, "the catalog is away")

    assert asked("/livez", health, 100.0 + age_s)[0] == status


def test_where_a_driver_hangs_is_logged_once():
    broker = Hanging(Broker(Session()))
    renewer = threading.Thread(target=Intents(broker, "control", "shop").open, name="stuck", args=(TABLE, ()))
    renewer.start()
    assert broker.is_asked.wait(60)
    health = Health(100.0)
    with capture_logs() as said:
        answers = [asked("/livez", health, 100.0 + HANGS_AFTER_S) for _ in range(2)]
        health.turned(9_000.0)
        answers.append(asked("/livez", health, 9_000.0))
    broker.may_go_on.set()
    renewer.join(60)

    assert answers == [("503", "the driver hangs\n")] * 2 + [("200", "ok\n")]
    (line,) = said
    assert (line["event"], line["for_s"]) == ("driver_hangs", HANGS_AFTER_S)
    assert [one.split()[1] for one in line["threads"]["stuck"].split(" < ")] == [
        "wait",
        "_send",
        "_stand",
        "open",
    ]


def test_the_port_serves_metrics_and_nothing_else():
    assert "isotherm_ingest_batches_failed_total" in asked("/metrics", Health(0.0))[1]
    assert asked("/secrets", Health(0.0)) == ("404", "/metrics /livez /readyz\n")
    port = serve(Metrics().registry, Health(0.0), "127.0.0.1", 0)
    assert get(port, "/metrics")[0] == 200


def test_connections_that_say_nothing_whole_do_not_shut_a_probe_of_ingest_out():
    port = serve(Metrics().registry, Health(monotonic_s()), "127.0.0.1", 0)
    with ExitStack() as stack:
        for _ in range(6 * KEPT_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(b"GET /met")

        assert get(port, "/livez") == (200, "ok\n")
