"""Whether what a table has is known to be this pipeline's. Writing to another's could double its rows."""

from isotherm.contract.summary import property_name
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.plan.known import Known, is_table
from isotherm_ingest.plan.resume_or_halt import OnHole
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, TableNow, is_first
from isotherm_ingest.tables.offset_vector import Token


def refuse_anothers(
    now: TableNow, token: Token | None, known: Known | None, pipeline: str, on_hole: OnHole
) -> None:
    """Refuse a table that has rows of which nobody knows how far they go.

    Args:
        now: the table.
        token: what it says of the pipeline's progress.
        known: what was last known of the table of this name.
        pipeline: whose it should be.
        on_hole: of its stream.

    Raises:
        TableRefused: a person must say what it has.
    """
    # Of another one all of the place is accepted, or nothing: a restored one would be written twice where it is not known.
    is_known = (
        known is not None and known.has_place and (is_table(known.uuid, now.uuid) or on_hole == "accept")
    )
    is_told = token is not None and token.is_known
    if not is_told and not is_known and not _is_ours(now, pipeline):
        raise TableRefused(
            f"{now.name} has snapshots and no token of pipeline {pipeline!r}: writing could double its rows. Use an "
            f'empty table, or set its property {property_name(pipeline)} to {{"topics":{{}}}} to begin at the beginning'
        )


def _is_ours(now: TableNow, pipeline: str) -> bool:
    """Whether the table is empty, or all that it has is this pipeline's."""
    ours = now.properties.get(PIPELINE_PROPERTY) == pipeline
    return now.oldest is None or (ours and is_first(now.oldest))
