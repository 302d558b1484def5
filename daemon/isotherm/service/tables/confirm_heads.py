"""From what the catalog says to state: heads are confirmed.

Before anything is done to a table its head is confirmed: the catalog's metadata is loaded, every change that came from an
event alone (`events_to_state`) is compared with it, what was not announced is applied from the manifests, what is not in the
history any more, or was never true, is undone, and where no path leads from the one to the other the table is scanned. So
lost, doubled, late, reordered and forged events delay; they never mislead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from isotherm.contract.events import OpenWindow
from isotherm.contract.identity import TableId
from isotherm.core.model.changes import Change
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.model.writers import Word, unannounced
from isotherm.core.observations import StateDrifted, TableGone, TableRefused, TableScanned
from isotherm.core.partition_state import StateError
from isotherm.core.partitions import with_epochs
from isotherm.core.state import built, with_pauses
from isotherm.core.summary_totals import gap_text
from isotherm.service.ports import (
    Catalog,
    GoOn,
    Listener,
    LoadedTable,
    NotYetKnown,
    NoWord,
    Refused,
    TableMissing,
    Unreadable,
)
from isotherm.service.rounds.verdicts import verdicts_rest_on
from isotherm.service.survey import place
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.service.tables.hidden_names import HiddenNames
from isotherm.service.tables.kept_tables import KeptTables
from isotherm.service.tables.missing_tables import MissingTables
from isotherm.service.tables.reading_time import ReadingTime, Work
from isotherm.service.tables.rewriters import note_seen
from isotherm.service.tables.seen_names import SeenNames
from isotherm.service.tables.two_names import Entry, TwoNames, second_entry
from isotherm.service.topics.batch import Batch
from isotherm.store.fold import JOURNAL_LENGTH, Fold, TableRow
from isotherm.store.ledger import Ledger

RECALLED = 1000
"""Recorded changes that a scan reads for the pauses of writers: more than half a day at a commit a minute."""
MOST_SUSPECTS = 10_000
"""Names that could not be looked up are kept for the next round up to here: events may name what nobody has."""
Epochs = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Of a table, by name and properties: the partition fields that hold a time as a number or text, and how."""
Halt = Callable[[TableId, Refusal], None]
"""Stops a table until a person has looked."""


class Follower:
    """Keeps the fold of every table true."""

    def __init__(
        self,
        fold: Fold,
        ledger: Ledger,
        catalog: Catalog,
        lists: CatalogLists,
        listen: Listener,
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
        epochs_of: Epochs,
        owns: Callable[[str], bool],
        halt: Halt,
        reading_time: ReadingTime,
        seen_names: SeenNames,
        disturb: Callable[[Iterable[str]], None],
    ) -> None:
        self._owns, self._disturb = owns, disturb
        self._halt = halt
        self._missing = MissingTables(fold, lists, monotonic_s)
        self._two_names = TwoNames()
        self._seen_names = seen_names
        self._hidden_names = HiddenNames(seen_names, lists, catalog, reading_time, monotonic_s)
        self._fold = fold
        self._ledger = ledger
        self._catalog = catalog
        self._lists = lists
        self._listen = listen
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._epochs_of = epochs_of
        self.kept = KeptTables(catalog.kept_bytes)
        self.reading_time = reading_time
        self._made_again: set[str] = set()
        """Tables of which a row could not be read. Where it is the ledger's, scanning them again helps nobody."""
        self.suspects: set[str] = set()
        """Names of tables that the catalog should be asked about at the next round."""
        self.strangers: set[str] = set()
        """Names that only events speak of: asked about once each, a few in each round."""

    def ask_again(self, name: str) -> None:
        """Have the catalog asked about a table at the next round."""
        if len(self.suspects) < MOST_SUSPECTS:
            self.suspects.add(name)

    def look_again(self, name: str) -> None:
        """The same for a table that is known. Of another one a source may have made up the name."""
        if self._fold.named(name):
            self.ask_again(name)

    def loaded(self, uuid: str) -> LoadedTable | None:
        """The table as it was loaded last, without its older snapshots; None where it is too large to be kept."""
        return self.kept.get(uuid)

    def confirm(self, name: str) -> LoadedTable | None:
        """The table as the catalog has it now, with the fold brought to its head. Returns None where it is gone.

        The fold takes in tables of this daemon alone.

        Raises:
            Unavailable: the catalog, or the files behind it, do not answer or make no sense.
            TableMissing: the catalog says that it does not have it, which is asked again before it is believed.
            Refused: the same, where it lists the table, or may list it; Unreadable: it has done so for an hour.
        """
        try:
            loaded = self._catalog.load(name)
        except TableMissing as err:
            if self._missing.is_gone(name, TableMissing):
                self._gone(name, str(err))
                return None
            raise
        except (Refused, NoWord) as err:
            if self._is_of_others(name) or self._is_gone_by_now(name, err):
                return None
            raise
        self._missing.found(name)
        self._hidden_names.ask(loaded.table)
        if not self.tell_apart(loaded.table):
            self.suspects.discard(name)
            return None
        place(self._ledger, loaded)
        for uuid in self._fold.named(name):
            if uuid != loaded.table.uuid:
                # If it was renamed, it is found again under its new name.
                self._seen_names.end_of(uuid, [name])
                self._gone(name, f"dropped and created again with uuid {loaded.table.uuid}")
        if self._owns(loaded.table.uuid) or self._fold.table(loaded.table.uuid) is not None:
            try:
                self.confirm_loaded(loaded)
            except TableMissing as err:  # it says of a snapshot that it has and has not
                raise Unreadable(str(err)) from err
            self.kept.measure()
        self.suspects.discard(name)
        return loaded

    def _is_of_others(self, name: str) -> bool:
        """Whether all that is known under a name is another daemon's, which finds out what is wrong with it."""
        is_theirs = bool(uuids := self._fold.named(name)) and not any(self._owns(uuid) for uuid in uuids)
        if is_theirs:
            self.suspects.discard(name)
        return is_theirs

    def _is_gone_by_now(self, name: str, said: Refused | NoWord) -> bool:
        """Whether a table of which nothing is shown is gone. Raises Unreadable: it may be there, and has been so for an hour."""
        answer = Refused if isinstance(said, Refused) else NoWord
        cause = "it was dropped, or a right is missing" if answer is Refused else "it was dropped"
        if self._missing.is_gone(name, answer):
            self._gone(name, f"{said}; nor does the catalog list it: {cause}")
            return True
        if self._missing.is_so_for_long(name, answer):
            self._listen(TableRefused(TableId("", name), str(said)))
            if answer is Refused:
                raise Unreadable(f"{said}; for long: a right is missing, or it was dropped") from said
            raise Unreadable(f"{said}; for long: the catalog has to be mended, or our login to it") from said
        return False

    def tell_apart(self, table: TableId) -> bool:
        """Halt a table of which this is a second entry. Returns whether it is no second name of a table that we know.

        A table that was renamed is not found under its old name any more. One that the catalog lists twice
        (`register_table`) has two histories and one set of files: what one entry expires, the other still reads. One
        that it lists once was asked for by another spelling, of capitals for instance.

        Raises:
            Unavailable: nobody can say. NotYetKnown: the catalog's next list says it.
        """
        uuid, name = table.uuid, table.name
        row = self._fold.table(uuid)
        if row is None or row.state.table.name == name:
            self._two_names.own(name)
            return True
        known = row.state.table.name
        if (self._ledger.halted(uuid) or "").startswith(Reason.TWO_ENTRIES):
            return False  # said already; where the known name is gone, its own look says so
        unread = None
        try:
            if not self._is_under(known, uuid):
                self._two_names.over(name, known)
                return True
        except (Refused, NoWord, Unreadable) as err:  # it may be the name of another table by now, or of none
            unread = err
        what = f"whether {name} and {known} are two entries of one table"
        listing = self._lists.asked_since(self._two_names.since_s(name, known, self._monotonic_s()))
        if listing is None:
            raise NotYetKnown(f"{what}: the catalog's next list says it")
        self._two_names.over(name, known)
        if any(listing.hides(one) for one in (name, known)):
            raise NotYetKnown(f"{what}: not every namespace is listed")
        if unread is not None and known in listing.names:
            raise unread
        if name in listing.names and known in listing.names:
            self._halt_twice(row, name)
            return False
        return known not in listing.names

    def _halt_twice(self, row: TableRow, name: str) -> None:
        """Halt a table that has a second name, if the catalog still says so: an answer about another table comes once."""
        table = row.state.table
        with suppress(TableMissing):
            self.reading_time.tick()
            lies = self._catalog.lies_in_time(name)
            if lies.uuid == table.uuid:
                if self._ledger.halted(table.uuid) is None:
                    known = Entry(table.name, row.facts.location)
                    self._halt(table, second_entry(Entry(name, lies.location), known))
                return
        raise NotYetKnown(f"whether {name} is a second entry of {table.name}: the catalog has said both")

    def _is_under(self, name: str, uuid: str) -> bool:
        """Whether the catalog has this table under this name."""
        self.reading_time.tick()  # another table was loaded just before
        try:
            is_this = self._catalog.load(name).table.uuid == uuid
        except (
            TableMissing
        ):  # a replica that lags says the same: the next list has the name, or has it no more
            return False
        if not is_this:
            self._seen_names.end_of(uuid, [name])
        return is_this

    def confirm_loaded(self, loaded: LoadedTable) -> None:
        """Bring the fold to the head of a table that was just loaded."""
        uuid = loaded.table.uuid
        epochs = self._epochs_of(loaded.table.name, loaded.facts.properties)
        fields = with_epochs(loaded.facts.fields, epochs)
        facts = replace(loaded.facts, fields=fields, confirmed_at_ms=self._now_ms())
        loaded = replace(loaded, facts=facts)
        self.kept.keep(self._catalog.light(loaded))
        self._seen_names.keep({loaded.table.name: uuid})
        row = self._fold.table(uuid)
        if row is None:
            self._scan(loaded, None, "first seen")
            self._fold.met(uuid, loaded.table.name, self._now_ms())
            return
        if row.state.head != loaded.head and self._is_put_off(Work.CATCHING_UP, uuid):
            return
        began_s, known = self._monotonic_s(), verdicts_rest_on(row.facts)
        with self._fold.transaction():
            try:
                with self.reading_time.of(loaded.table) as go_on:
                    row = self._travel(replace(row, facts=facts), loaded, go_on)
            except (StateError, _NoPathError) as err:
                self._scan(loaded, row, str(err))
                return
            self.reading_time.done(Work.CATCHING_UP, uuid, began_s)
            if not row.is_trusted:
                self._scan(loaded, row, "its totals did not add up")
                return
            with self._ledger.transaction():
                self._ledger.learn(uuid, row.state.lateness, self._now_ms())
                facts = note_seen(self._ledger, loaded, row.state, self._now_ms())
            state = replace(row.state, table=loaded.table, on_faith=0)
            self._fold.save_table(state, facts, loaded.head, loaded.log(), loaded.astray)
            if verdicts_rest_on(facts) != known:
                self._fold.touch(uuid, None)

    def _travel(self, row: TableRow, loaded: LoadedTable, go_on: GoOn) -> TableRow:
        """From the state's head to the catalog's: undo what is not in its history, check, apply what is missing."""
        ancestors = loaded.ancestors()
        places = {snapshot_id: place for place, snapshot_id in enumerate(ancestors)}
        while row.state.head is not None and row.state.head not in places:
            row = self._undone(row, loaded)
        if row.state.head is not None:
            for _ in range(self._believed_wrongly(row, loaded, ancestors[places[row.state.head] :], go_on)):
                row = self._undone(row, loaded)
        head = row.state.head
        missing = ancestors if head is None else ancestors[: places.get(head, 0)]
        if head is not None and head not in places:
            raise _NoPathError(f"snapshot {head} has expired")
        if head is None and missing and loaded.parents[missing[-1]] is not None:
            raise _NoPathError("the beginning of the table's history has expired")
        return self._catch_up(row, loaded, missing, go_on)

    def _catch_up(self, row: TableRow, loaded: LoadedTable, missing: Sequence[int], go_on: GoOn) -> TableRow:
        """Apply what nobody announced, newest first as it is given, from the manifests of each snapshot."""
        uuid = loaded.table.uuid
        batch = Batch(self._fold, self._ledger)
        batch.begin_with(row)
        if len(missing) > JOURNAL_LENGTH:
            # Each costs two reads or more, in one go, and could not be undone; a scan reads the head alone.
            raise _NoPathError(f"it is {len(missing)} snapshots behind the catalog")
        for change in self._catalog.changes(loaded, missing[::-1], go_on):
            applied = batch.apply(row, change, self._now_ms(), announced=False)
            row = replace(row, state=applied.state, is_trusted=row.is_trusted and not applied.drifted)
            if applied.drifted:
                self._listen(
                    StateDrifted(row.state.table, change.snapshot_id, gap_text(applied.state.summary_gap))
                )
                self.rebuild_later(row.state.table)
            if change.is_foreign_write:
                who = unannounced(loaded.snapshots[change.snapshot_id].token)
                self._fold.save_word(uuid, Word(who, self._now_ms(), OpenWindow()))
        with self._ledger.transaction():
            batch.write()
        return row

    def _undone(self, row: TableRow, loaded: LoadedTable) -> TableRow:
        """The state as it was before its newest change."""
        uuid, head = loaded.table.uuid, row.state.head
        self._disturb([uuid])  # one commit less and one more would look as if nobody had written
        recorded = None if head is None else self._fold.recorded(uuid, head)
        if recorded is None:
            raise _NoPathError(f"snapshot {head} is not in the table's history any more")
        change, prior = recorded
        self._fold.save_partitions(uuid, prior.partitions)
        self._fold.save_state(prior.state)
        self._fold.forget(uuid, change.snapshot_id)
        self._ledger.forget_change(uuid, change.snapshot_id)
        if row.state.on_faith and change.snapshot_id not in loaded.snapshots:
            # Only an event ever spoke of it: there is nothing to account for.
            self._ledger.forget_account(uuid, change.snapshot_id)
        return replace(row, state=prior.state)

    def _believed_wrongly(self, row: TableRow, loaded: LoadedTable, line: Sequence[int], go_on: GoOn) -> int:
        """How many changes must be undone, because an event said something else than its metadata and manifest list."""
        believed: list[Change] = []
        for snapshot_id in line:
            recorded = self._fold.recorded(loaded.table.uuid, snapshot_id)
            if snapshot_id == row.confirmed_head or recorded is None:
                break
            believed.append(recorded[0])
        verdicts = enumerate(self._catalog.are_true(loaded, believed, go_on), start=1)
        return max((number for number, is_true in verdicts if not is_true), default=0)

    def rebuild_later(self, table: TableId) -> None:
        """Nothing of this state is to be trusted: forget it, the next round scans the table."""
        self._fold.distrust(table.uuid)
        self.suspects.add(table.name)

    def make_again(self, table: TableId) -> None:
        """Forget a table of which a row cannot be read: the next round scans it. Only once in a process's life."""
        if table.uuid not in self._made_again:
            self._made_again.add(table.uuid)
            self._fold.drop(table.uuid)
            self.suspects.add(table.name)

    def _scan(self, loaded: LoadedTable, before: TableRow | None, why: str) -> None:
        uuid, now_ms, started_s = loaded.table.uuid, self._now_ms(), self._monotonic_s()
        if before is not None and self._is_put_off(Work.SCAN, uuid):
            return
        self._disturb([uuid])
        with self.reading_time.of(loaded.table) as go_on:
            scan = self._catalog.scan(loaded, go_on)
        partitions = with_pauses(scan.partitions, self._ledger.changes(uuid, RECALLED), scan.head)
        state = built(
            loaded.table,
            partitions,
            scan.head,
            boundary_ms=scan.boundary_by(now_ms),
            foreign_commits=scan.foreign_commits,
            lateness=self._ledger.learnt(uuid) if before is None else before.state.lateness,
            appends=scan.appends,
            before=None if before is None else before.state,
        )
        with self._ledger.transaction():
            self._ledger.account_found(uuid, loaded.log(), now_ms)
            facts = note_seen(self._ledger, loaded, None, now_ms)
        self._fold.replace(state, facts, partitions, loaded.log(), loaded.astray)
        seconds = self.reading_time.done(Work.SCAN, uuid, started_s)
        self._listen(TableScanned(loaded.table, why, scan.files, seconds, scan.read_slowly))

    def _is_put_off(self, work: Work, uuid: str) -> bool:
        """Whether a table that took long waits. Nothing is done to it until then."""
        if self.reading_time.may_begin(work, uuid):
            return False
        self._fold.distrust(uuid)
        return True

    def _gone(self, name: str, why: str) -> None:
        self.suspects.discard(name)
        self._two_names.gone(name)
        for uuid in self._fold.named(name):
            self._listen(TableGone(TableId(uuid, name), why))
            self._fold.drop(uuid)
            self.kept.forget(uuid)
            self.reading_time.forget(uuid)


class _NoPathError(Exception):
    """The state cannot be brought to the new head by undoing and applying: the table must be scanned."""
