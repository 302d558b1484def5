"""What may happen to a table between two turns of the daemon, by who writes it."""

from histories import sql
from histories.branches import pin, unpin, write_branch
from histories.columns import nest, rename
from histories.happenings import Step
from histories.keyed_writes import (
    bulk,
    churn,
    global_deletes,
    keyed_deletes,
    load_and_upsert,
    trickle,
    upsert,
)
from histories.places import keep_place
from histories.worked_table import leave_an_orphan, statistics, upgrade

STEPS: dict[Step, int] = {
    **sql.SQL,
    sql.insert: 14,
    sql.delete: 8,
    keyed_deletes: 6,
    global_deletes: 2,
    upsert: 5,
    load_and_upsert: 3,
    keep_place: 5,
    bulk: 2,
    trickle: 2,
    churn: 2,
    pin: 3,
    unpin: 1,
    write_branch: 3,
    nest: 2,
    rename: 2,
    statistics: 2,
    upgrade: 2,
    leave_an_orphan: 4,
}
"""Everything, by weight."""
ALONE: dict[Step, int] = {
    step: weight
    for step, weight in STEPS.items()
    if step not in (sql.compact, sql.compact_deletes, sql.regroup, sql.expire)
}
"""Where nobody else maintains the table: equality deletes may be made into position deletes then."""
MIRROR: dict[Step, int] = {
    sql.insert: 5,
    bulk: 2,
    keyed_deletes: 4,
    upsert: 4,
    load_and_upsert: 6,
    global_deletes: 2,
    trickle: 4,
    churn: 4,
    keep_place: 1,
    sql.delete: 2,
    sql.update: 2,
    pin: 1,
    unpin: 1,
    leave_an_orphan: 1,
}
"""Of a writer that upserts by keys, as Flink does."""
STREAM: dict[Step, int] = {
    sql.insert: 6,
    bulk: 1,
    keep_place: 4,
    write_branch: 1,
    pin: 1,
    unpin: 1,
    leave_an_orphan: 1,
}
"""Of a writer that only appends."""
