"""Who took away a file that is missing: the daemon answers for what its ledger says, and for nothing else.

A file may also have gone by somebody's `remove_orphan_files`, by a rule of the bucket, or by hand. The ledger writes a file
down before it is deleted, and keeps that for a week after it: what it does not have was not deleted by this daemon lately.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from isotherm.audit.intents import time_text
from isotherm.contract.paths import normalised
from isotherm.store.database import StoreError
from isotherm.store.ledger import Ledger

Removed = Mapping[str, int | None]
"""By normalised path, when the daemon took a file away; None where it has only marked it to go."""


def removed_in_ledger(path: Path, table_uuid: str) -> Removed:
    """What a ledger says that its daemon took away of a table. Empty where there is no ledger."""
    try:
        ledger = Ledger(path, read_only=True)
    except StoreError:
        return {}
    try:
        return {normalised(name): at_ms for name, at_ms in ledger.removed(table_uuid)}
    finally:
        ledger.close()


def told_apart(
    missing: Iterable[tuple[str, int]], removed: Removed
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Missing files that the daemon has taken away, and all others, in words.

    Args:
        missing: paths, and the snapshots that need them.
        removed: what the ledger says.
    """
    ours, others = [], []
    for path, snapshot_id in missing:
        said = f"{path} (needed by snapshot {snapshot_id})"
        name = normalised(path)
        if name not in removed:
            others.append(said)
            continue
        at_ms = removed[name]
        how = "had marked to be deleted" if at_ms is None else f"deleted at {time_text(at_ms)}"
        ours.append(f"{said}, which this daemon {how}")
    return tuple(ours), tuple(others)
