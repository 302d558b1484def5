"""Who else rewrites a table's data files: looked for whenever its metadata was read, and kept in the ledger.

What is seen is kept there because snapshots expire, and the fold may be lost.
"""

from isotherm.core.model.tables import Snapshot, TableFacts
from isotherm.core.rewriters import Watch, known_since_ms
from isotherm.core.state import TableState
from isotherm.service.ports import LoadedTable
from isotherm.store.ledger import Ledger


def note_seen(ledger: Ledger, loaded: LoadedTable, state: TableState | None, now_ms: int) -> TableFacts:
    """Note how far a table has come, and who has rewritten it. Returns its facts with what is remembered of that.

    Args:
        ledger: where it is kept.
        loaded: the table as it was read.
        state: its state, to which all its commits have led; None where it was read from scratch.
        now_ms: the time.
    """
    uuid = loaded.table.uuid
    known = ledger.watch(uuid)
    watch = _begun(ledger, loaded, now_ms) if known is None else known
    if state is None:
        followed = ledger.followed_through(uuid)
        watch = watch.after_gap(_oldest(loaded), followed, now_ms, is_whole=loaded.is_whole)
    rewritten_in = loaded.facts.rewritten_in
    if rewritten_in is None and state is not None:
        rewritten_in = state.rewritten_in  # it came and expired between two looks
    watch = watch.sees(rewritten_in, now_ms)
    ledger.see(uuid, loaded.seen_through, now_ms)
    ledger.follow(uuid, _last_number(loaded))
    if watch != known:
        ledger.keep_watch(uuid, watch)
    return watch.told(loaded.facts, now_ms)


def _begun(ledger: Ledger, loaded: LoadedTable, now_ms: int) -> Watch:
    """What is known of a table that nobody has watched so far: its history, and what an older version recorded."""
    uuid, oldest = loaded.table.uuid, _oldest(loaded)
    # Without a snapshot it is new, or had some on other branches, or was emptied.
    since_ms = (
        now_ms
        if oldest is None and loaded.seen_through
        else known_since_ms(oldest, now_ms, is_whole=loaded.is_whole)
    )
    rewritten_in, is_whole = ledger.recorded_rewrite(uuid)
    recorded_ms = ledger.recorded_since(uuid) if is_whole else None  # what cannot be read may be a rewrite
    watch = Watch(since_ms if recorded_ms is None else min(since_ms, recorded_ms))
    return watch.sees(rewritten_in, now_ms)


def _last_number(loaded: LoadedTable) -> int:
    """The highest sequence number in this version. What else was read may be further: a search's, or a newer replica's."""
    return max((one.sequence_number for one in loaded.snapshots.values()), default=0)


def _oldest(loaded: LoadedTable) -> Snapshot | None:
    """The first of the head's ancestors without a gap, or None where there is no snapshot."""
    ancestors = loaded.ancestors()
    return loaded.snapshots[ancestors[-1]] if ancestors else None
