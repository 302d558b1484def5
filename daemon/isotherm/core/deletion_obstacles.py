"""What stands against every deletion of a table, whatever the table itself shows: asked before anything is proved."""

from dataclasses import dataclass

from isotherm.core.deletion import Cause


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands against a deletion at this moment, on the daemon's side and the table's. None where nothing does."""

    ledger: str | None = None
    """Why this daemon's ledger is not to be believed."""
    clock: str | None = None
    """Why this machine's clock is not to be believed."""
    owner: str | None = None
    """Why the table is not this daemon's to maintain."""
    held: str | None = None
    """Why a person, or a halt, keeps us from the table."""
    has_policy: bool = True
    may_expire: bool = True
    """Whether the policy lets snapshots of this table expire."""
    may_trim: bool = True
    """Whether it lets old versions of the metadata go."""
    may_remove_orphans: bool = True
    """Whether it lets orphans go, and does not only want them counted."""
    may_look_for_orphans: bool = True
    """Whether it wants them looked for at all: then what is needed is put back from quarantine too."""


def obstacle(standing: Standing, cause: Cause) -> str | None:
    """Why nothing of a table that was marked for this cause may be deleted now, or None."""
    for against in (standing.ledger, standing.clock, standing.owner, standing.held):
        if against is not None:
            return against
    if not standing.has_policy:
        return "no policy maintains the table any more"
    if cause is Cause.EXPIRED and not standing.may_expire:
        return "the policy does not expire snapshots of this table any more"
    if cause is Cause.OLD_VERSION and not standing.may_trim:
        return "the policy does not remove old versions of this table's metadata any more"
    if cause is Cause.ORPHAN and not standing.may_remove_orphans:
        return "the policy does not remove orphans of this table any more"
    if cause is Cause.QUARANTINED and not standing.may_look_for_orphans:
        return "the policy does not look for orphans of this table any more"
    return None
