"""Which tables the outbox looks at, and when."""

from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.metrics import Metrics


def test_our_own_commits_do_not_put_off_the_look_for_those_of_others():
    outbox = Outbox(None, None, "shop", "control", "announced", Metrics(), every_s=5)
    for name in ("shop.busy", "shop.quiet"):
        outbox.wake(name)
    assert outbox.due(100.0) == {"shop.busy", "shop.quiet"}

    looked_at = []
    for tenth in range(1, 101):
        outbox.wake("shop.busy")
        looked_at += outbox.due(100.0 + tenth / 10)
    assert looked_at.count("shop.busy") == 100
    assert looked_at.count("shop.quiet") == 2
