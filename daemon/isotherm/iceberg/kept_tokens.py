"""Where ingest's writers are, kept as table properties before the snapshots go that say it.

Such a property stays after a rollback, and after others have expired newer tokens. So it also says up to which snapshot of
`main` it was the newest, and each expiry of ours brings that up to date.
"""

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.summary import (
    INGEST_PIPELINE,
    INGEST_TOKEN,
    NOWHERE,
    as_of,
    is_kept,
    kept_as_of,
    kept_token,
    property_name,
)
from isotherm.iceberg.snapshots import summary_of


def newest_tokens(metadata: TableMetadata) -> dict[str, str]:
    """The newest offset vector of each ingest pipeline on `main`, as the table properties where ingest looks for it.

    Of one whose snapshots are gone already the property says again that it is the newest, or that `main` went back behind it,
    as long as snapshots are there that show it. Of the rest nobody can say.
    """
    tokens: dict[str, str] = {}
    main: dict[int, Snapshot] = {}
    # By hand: PyIceberg looks for a snapshot from the first one on, and histories are long.
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    current = metadata.current_snapshot_id
    # Taken out as they are visited: damaged metadata may lead in a circle.
    while current is not None and (snapshot := snapshots.pop(current, None)) is not None:
        summary = summary_of(snapshot)
        if INGEST_TOKEN in summary:
            name = property_name(summary.get(INGEST_PIPELINE, ""))
            kept = kept_token(summary[INGEST_TOKEN], snapshot.sequence_number or 0, next(iter(main), current))
            tokens.setdefault(name, kept)
        main[current] = snapshot
        current = snapshot.parent_snapshot_id
    # What is left of `snapshots` is not on main. `current` is the one before the oldest, which is gone.
    for name, kept in metadata.properties.items():
        if is_kept(name) and name not in tokens and (place := as_of(kept)):
            if place in main or place == current:
                tokens[name] = kept_as_of(kept, next(iter(main), place))
            elif place in snapshots:
                tokens[name] = kept_as_of(kept, NOWHERE)
    return tokens
