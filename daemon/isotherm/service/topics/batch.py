"""Changes that came together are folded together: what they touch is read once, and written once.

A batch holds tables and partitions as its changes leave them, in memory; nothing is saved before `write`. Of many
events of one table only the last state is written, with everything that each of them adds: its change in the journal,
its account, its writer's word.
"""

from dataclasses import dataclass, field, replace

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.changes import Change
from isotherm.core.model.writers import Word
from isotherm.core.observations import Observation
from isotherm.core.partition_state import PartitionState
from isotherm.core.state import Applied, Prior, apply
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import Account, Ledger


@dataclass(slots=True)
class _Open:
    """A table of the batch."""

    row: TableRow
    partitions: dict[PartitionKey, PartitionState | None] = field(default_factory=dict)
    """Those that were read or changed, with None for a partition that does not exist."""
    changed: set[PartitionKey] = field(default_factory=set)
    journal: list[tuple[Change, Prior]] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)


class Batch:
    """Some changes of some tables, until they are written."""

    def __init__(self, fold: Fold, ledger: Ledger) -> None:
        self._fold = fold
        self._ledger = ledger
        self._tables: dict[str, _Open | None] = {}
        self._heard: dict[str, int] = {}
        self._words: dict[tuple[str, str], Word] = {}
        self._known_words: dict[str, dict[str, Word]] = {}
        self.read: dict[int, Change | None] = {}
        """By the identity of an event: what the manifests say that it names; None where they could not be read."""
        self.told: list[Observation] = []
        """What is to be told when the batch is saved."""

    def row(self, uuid: str) -> TableRow | None:
        """A table as the batch leaves it; None where the fold has it not."""
        if uuid not in self._tables:
            row = self._fold.table(uuid)
            self._tables[uuid] = None if row is None else _Open(row)
        table = self._tables[uuid]
        return None if table is None else table.row

    def begin_with(self, row: TableRow) -> None:
        """Take a table as it is given, not as the fold has it."""
        self._tables[row.state.table.uuid] = _Open(row)

    def is_known(self, uuid: str, snapshot_id: int) -> bool:
        """Whether a snapshot was accounted for, before or in the batch."""
        table = self._tables.get(uuid)
        if table is not None and any(one.snapshot_id == snapshot_id for one in table.accounts):
            return True
        return self._ledger.is_known(uuid, snapshot_id)

    def apply(self, row: TableRow, change: Change, received_at_ms: int, *, announced: bool) -> Applied:
        """Take a change into a table of the batch; one of an event that moves the totals is only looked at.

        An event is no reason to distrust the state, because anybody may have sent it.

        Raises:
            StateError: it does not fit; then nothing of it is in the batch.
        """
        uuid = row.state.table.uuid
        table = self._tables[uuid]
        if table is None:
            raise KeyError(uuid)
        if unread := [key for key in change.partitions if key not in table.partitions]:
            found = self._fold.states(uuid, unread)
            table.partitions.update({key: found.get(key) for key in unread})
        before = {key: state for key in change.partitions if (state := table.partitions[key]) is not None}
        applied = apply(row.state, before, change, row.facts.fields, received_at_ms)
        if announced and applied.drifted:
            return applied
        table.partitions.update(applied.partitions)
        table.changed.update(applied.partitions)
        table.journal.append((change, applied.prior))
        table.accounts.append(
            Account(
                snapshot_id=change.snapshot_id,
                sequence_number=change.sequence_number,
                origin=str(change.origin),
                committed_at_ms=change.committed_at_ms,
                received_at_ms=received_at_ms,
                decided_at_ms=None,
                announced=announced,
            )
        )
        table.row = replace(row, state=applied.state, is_trusted=row.is_trusted and not applied.drifted)
        return applied

    def heard(self, uuid: str, at_ms: int, word: Word | None, now_ms: int) -> None:
        """An event of the table came, with its writer's word; one that is older than what is known says nothing.

        What was heard when the clock was ahead is older than all that comes now.
        """
        row = self.row(uuid)
        before_ms = (self._heard.get(uuid, 0), 0 if row is None else row.last_event_at_ms)
        self._heard[uuid] = max(at_ms, *(ms for ms in before_ms if ms <= now_ms), 0)
        if word is None:
            return
        if uuid not in self._known_words:
            self._known_words[uuid] = {one.writer: one for one in self._fold.words(uuid)}
        known = self._known_words[uuid].get(word.writer)
        if known is None or known.at_ms <= word.at_ms or known.at_ms > now_ms:
            self._known_words[uuid][word.writer] = self._words[uuid, word.writer] = word

    def write(self) -> set[str]:
        """Save everything; the transactions are the caller's.

        Returns the tables of which more writers spoke than are kept.
        """
        for uuid, table in self._tables.items():
            if table is None or not table.journal:
                continue
            self._fold.save_partitions(uuid, {key: table.partitions[key] for key in table.changed})
            self._fold.save_state(table.row.state, self._heard.pop(uuid, None))
            # What was caught up with was read from the catalog, and nothing of it rests on an event.
            on_faith = table.row.state.on_faith if any(one.announced for one in table.accounts) else 0
            self._fold.record(uuid, table.journal, on_faith)
            self._ledger.account(uuid, table.accounts)
            received = [one.received_at_ms for one in table.accounts]
            changes = (change for change, _ in table.journal)
            self._ledger.record(uuid, zip(changes, received, strict=True))
        self._fold.note_events(self._heard)  # of tables to which nothing was done
        return {uuid for (uuid, _), word in self._words.items() if not self._fold.save_word(uuid, word)}
