"""A table that is due, and holds on it that somebody has put."""

from isotherm.contract.summary import JOB_ID
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.store.database import to_json


def ours(table):
    return [s for s in table.refresh().snapshots() if JOB_ID in s.summary.additional_properties]


def due_table(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    return table


def hold_of(table, kind=HoldKind.HALT, **fields):
    return Hold(kind, str(table.metadata.table_uuid), "shop.orders", "somebody said so", 1, **fields)


def put(lab, hold):
    """As another daemon, or a person, would."""
    lab.held.append((hold.key, to_json(hold).encode()))
