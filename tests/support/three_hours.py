"""A table of which three hours are due at once, and what a daemon committed to it."""

from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import JOB_ID
from support.lab import START

DUE = (1, 2, 3)


def hour_key(hour):
    """The partition of an hour."""
    return PartitionKey(f'{{"1000":{int(START.timestamp()) // 3600 + hour}}}')


def filled(lab):
    """A table in which three hours are due and cold."""
    table = lab.create()
    for _ in range(3):
        lab.append(table, *DUE)
    for hour in (9, 10, 11):
        lab.append(table, hour)
    return table


def ours(table):
    return [
        one.summary.additional_properties
        for one in table.refresh().snapshots()
        if JOB_ID in one.summary.additional_properties
    ]
