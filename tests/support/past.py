"""The stores of a daemon that has followed a made-up history: what `simulate` reads, without a file of the table."""

from dataclasses import replace

from isotherm.contract.identity import TableId
from isotherm.core.state import TableState, apply
from isotherm.store import Fold, Ledger
from support.lab import Lab
from support.worked import configured


def followed(root, history, policy):
    """A lab whose daemon has followed a history. The catalog has the table, and none of its snapshots any more."""
    lab = Lab(root, policy=policy)
    name = history.table.name
    table = TableId(str(lab.create(name).metadata.table_uuid), name)
    state, partitions = TableState(table, None), dict(history.partitions)
    for one in history.recorded:
        applied = apply(state, partitions, one.change, history.facts.fields, one.received_at_ms)
        state = applied.state
        partitions.update(applied.partitions)
    (root / "state").mkdir()
    fold = Fold(root / "state" / "fold.db")
    left = {key: partition for key, partition in partitions.items() if partition is not None}
    fold.replace(replace(state, partitions=len(left)), history.facts, left, ())
    fold.close()
    ledger = Ledger(root / "state" / "ledger.db")
    ledger.record(table.uuid, [(one.change, one.received_at_ms) for one in history.recorded])
    ledger.close()
    configured(lab)
    return lab
