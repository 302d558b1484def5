"""The newest intent on the topic names every partition that the write touches."""

from isotherm.contract.events import Intent, decode
from isotherm.contract.identity import TableId
from isotherm_ingest.announce.intents import Intents
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

    def said(self):
        events = [decode(one.value) for one in self.sent]
        return [one.partitions for one in events if isinstance(one, Intent)]


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
