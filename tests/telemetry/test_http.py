"""What the daemon's port says of its health."""

import pytest
from prometheus_client import CollectorRegistry

from isotherm.runtime.clock import monotonic_s
from isotherm.service.health import Health
from isotherm.telemetry.http import serve
from support.http_client import get


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.mark.parametrize(
    ("stands_s", "alive", "ready"),
    [(1, (200, "ok\n"), (200, "ok\n")), (100, (200, "ok\n"), 503), (1000, (503, "the loop is stuck\n"), 503)],
)
def test_a_loop_that_stands_still_is_not_ready_long_before_it_counts_as_stuck(
    registry, stands_s, alive, ready
):
    health = Health(monotonic_s() - stands_s, has_policies=True, is_assigned=True, catalog_answers=True)
    port = serve("127.0.0.1", 0, registry, health)
    status, text = get(port, "/readyz")

    assert get(port, "/livez") == alive
    if ready == 503:
        assert status == 503
        assert text.startswith("the loop has not turned for 100")
    else:
        assert (status, text) == ready


@pytest.mark.parametrize(
    ("lacks", "told"),
    [
        ("has_policies", "no policy is loaded"),
        ("is_assigned", "the control topic is not assigned"),
        ("catalog_answers", "the catalog does not answer"),
    ],
)
def test_each_thing_that_a_daemon_needs_is_missed_by_name(registry, lacks, told):
    fine = {"has_policies": True, "is_assigned": True, "catalog_answers": True}
    health = Health(monotonic_s(), **fine | {lacks: False})
    port = serve("127.0.0.1", 0, registry, health)

    assert get(port, "/readyz") == (503, f"{told}\n")
    assert get(port, "/livez") == (200, "ok\n")


def test_nothing_is_blamed_that_was_not_asked(registry):
    health = Health(monotonic_s())
    port = serve("127.0.0.1", 0, registry, health)
    unasked = get(port, "/readyz")
    health.waits_for = "the broker"
    waiting = get(port, "/readyz")

    assert unasked == (
        503,
        "the policies were not read yet; the control topic was not read yet; the catalog was not asked yet\n",
    )
    assert waiting == (503, "the start waits for the broker\n")


def test_a_loop_that_stands_is_told_beside_what_the_start_waits_for():
    assert ["the loop has not turned for 61 s", "the start waits for the catalog"] == Health(
        100, waits_for="the catalog"
    ).missing(161)
