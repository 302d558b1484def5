"""What anybody who may write to the control topic can send, and a daemon with debt that hears it."""

from isotherm.contract.events import Intent
from isotherm.contract.identity import partition_key
from support.lab import started

AN_HOUR_MS = 3_600_000


def intent(uuid, number=0, **changes):
    """An intent as anybody may send it."""
    return Intent(
        table_uuid=uuid,
        table="shop.orders",
        intent_id=f"forged {number}",
        writer=f"nobody {number}",
        state="open",
        at_ms=0,
        expires_at_ms=2**60,
        partitions=(partition_key({1000: -1}),),
    ).model_copy(update=changes)


def with_debt(lab):
    """A table with partitions that are due, and a daemon that knows it and has not begun."""
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    service.events.is_reachable = False  # a topic that cannot be read to its end: no rewrite begins
    service.compactions.last_look.is_blind = True
    service.step(0)
    service.step(0)
    return table, service


def hear(lab, service, events):
    for event in events:
        lab.announce(event)
    service.consume(service.events.poll(0))


def verdicts(service, uuid):
    """After the next round, in which a table that was touched as a whole is decided again."""
    service.round()
    return {str(row.verdict) for row in service.fold.partitions(uuid)}
