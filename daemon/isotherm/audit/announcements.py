"""Whether it can still be known that a snapshot was announced, and if not, why."""

from isotherm.audit.evidence import Evidence

TOPIC_AWAY = "the control topic cannot be read"
NO_LEDGER = "there is no ledger that knows the table"
CAN_BE_READ_LATER = frozenset({TOPIC_AWAY, NO_LEDGER})
"""Reasons for which another audit may judge what this one does not."""
FORGOTTEN = "the control topic no longer has messages of its time"
LOST = "the ledger counts it as announced; the control topic, made again or cut, does not have it"
STOOD_BEFORE = "it was in the table before the daemon first looked"


def why_not_known(history: Evidence, snapshot_id: int, at_ms: int | None) -> str | None:
    """Why nobody can say whether a snapshot should have been announced and was, or None where it can be said."""
    topic_since_ms, ledger_since_ms = history.announced_since_ms, history.accounted_since_ms
    if at_ms is not None and topic_since_ms is not None and at_ms < topic_since_ms:
        return FORGOTTEN
    if snapshot_id in history.announced:
        return None
    if at_ms is not None and ledger_since_ms is not None and at_ms < ledger_since_ms:
        return STOOD_BEFORE
    if history.accounted is None:
        # Only a ledger knows since when a daemon has followed the table: before, nobody had to announce it.
        return NO_LEDGER
    return LOST if snapshot_id in history.heard else None
