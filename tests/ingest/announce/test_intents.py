"""The newest intent on the topic names every partition that the write touches."""

from isotherm.contract.events import Intent, decode
from isotherm.contract.identity import TableId
from isotherm.runtime import clock
from isotherm_ingest.announce.intents import RENEW_EVERY_S, Intents
from support.messages import Broker, Session

OLD, NEW, OTHER = '{"1000":1}', '{"1000":2}', '{"1000":3}'


class Slow(Broker):
    """A broker whose acknowledgements come after the renewal."""

    def __init__(self, session):
        super().__init__(session)
        self.meanwhile = lambda: None

    def send(self, records):
        super().send(records)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()

    def intents(self):
        events = [decode(one.value) for one in self.sent]
        return [one for one in events if isinstance(one, Intent)]

    def said(self):
        return [one.partitions for one in self.intents()]


def test_a_renewal_never_says_less_than_what_was_said_before_it():
    broker = Slow(Session())
    intents = Intents(broker, "control", "shop")
    try:
        first = intents.open(TableId("1", "a.b"), (OLD,))
        broker.meanwhile = intents.renew
        wider = intents.widen(first, (OLD, NEW))
        broker.meanwhile = intents.renew
        intents.open(TableId("1", "a.b"), (OTHER,), wider)
        intents.renew()
    finally:
        intents.stop()

    assert broker.said() == [(OLD,), (OLD, NEW), (OTHER,), (OTHER,)]


def test_an_intent_stands_through_ten_renewals_that_never_came():
    """One that is over when it comes holds nobody off its partitions."""
    broker = Slow(Session())
    intents = Intents(broker, "control", "shop")
    before_ms = clock.now_ms()
    try:
        intents.open(TableId("1", "a.b"), (OLD,))
        intents.renew()
    finally:
        intents.stop()
    after_ms = clock.now_ms()

    assert len(broker.intents()) >= 2
    assert all(before_ms <= one.at_ms <= after_ms for one in broker.intents())
    assert all(one.expires_at_ms >= one.at_ms + 10 * RENEW_EVERY_S * 1000 for one in broker.intents())
    # A driver that died holds nothing for long.
    assert all(one.expires_at_ms <= one.at_ms + 5 * 60_000 for one in broker.intents())
