"""What a new version of the policies means: which fields changed, for which tables, which decisions are void.

The record of it is an observation, and stands in the ledger: who asks later why a table was suddenly maintained
otherwise finds the file and the field. The files in force are kept there too, so that a file which is broken when
the daemon starts again still holds in its last good version.
"""

from collections.abc import Iterable

from isotherm.core.observations import PoliciesLoaded
from isotherm.core.policy.diff import file_changes
from isotherm.core.policy.patterns import Names
from isotherm.core.policy.policy import Policy
from isotherm.service.policies.policy_folder import PolicyFolder, Reading
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger

MAX_LISTED = 50
"""Changes, tables and complaints that a record names; the others are counted."""


def recall_policies(policies: PolicyFolder, ledger: Ledger) -> None:
    """Hold what was in force when the daemon ended."""
    policies.recall(ledger.policies())


def reload_policies(
    policies: PolicyFolder, fold: Fold, ledger: Ledger, suspects: set[str], now_ms: int
) -> PoliciesLoaded | None:
    """Read the folder again, and drop the decisions that are void. Returns None where nothing is different.

    If any of it fails, what was in force before stays so, and the next call begins at the front.

    Tables whose partitions mean other times now join the suspects, of which the metadata is read again.
    """
    with policies.reloading() as reading:
        return None if reading is None else _recorded(reading, policies, fold, ledger, suspects, now_ms)


def _recorded(
    reading: Reading, policies: PolicyFolder, fold: Fold, ledger: Ledger, suspects: set[str], now_ms: int
) -> PoliciesLoaded:
    changed = Names(
        (pattern, None)
        for name in reading.before.files.keys() | reading.after.files.keys()
        if reading.before.files.get(name) != reading.after.files.get(name)
        for file in (reading.before.files.get(name), reading.after.files.get(name))
        if file is not None
        for pattern in file.tables
    )
    # What a broken file leaves alone is told by the two books alone.
    is_any = reading.before.gaps != reading.after.gaps
    tables: list[str] = []
    dropped = 0
    # The fold is saved first: decisions that were dropped twice do no harm, those that were not would stay.
    with ledger.transaction(), fold.transaction():
        for uuid, name in fold.names().items():
            if not is_any and next(changed.that_match(name), None) is None:
                continue
            row = fold.table(uuid)
            if row is None:
                continue  # its row cannot be read: it is scanned, and decided by what is in force then
            properties = row.facts.properties
            old, new = (
                None if found is None else found.policy
                for found in (book.resolve(name, properties) for book in (reading.before, reading.after))
            )
            if old != new:
                if new is not None and new.cold.epochs != (old or Policy()).cold.epochs:
                    suspects.add(name)
                fold.touch(uuid, None)
                tables.append(name)
                dropped += row.state.partitions
        loaded = PoliciesLoaded(
            ok=not policies.complaints,
            files=len(reading.after.files),
            complaints=_listed(policies.complaints),
            changes=_listed(file_changes(reading.before.files, reading.after.files)),
            tables=_listed(sorted(tables)),
            decisions_dropped=dropped,
        )
        ledger.reloaded(loaded, policies.texts(), now_ms)
    return loaded


def _listed(lines: Iterable[str]) -> str:
    every = list(lines)
    more = [f"… and {len(every) - MAX_LISTED} more"] if len(every) > MAX_LISTED else []
    return "; ".join([*every[:MAX_LISTED], *more])
