"""Somebody else who rewrites a table's files is remembered, whatever expires and whichever store is lost.

A conversion of equality deletes beside a rewrite of theirs brings rows back (tests/iceberg/compaction/test_equality_deletes.py).
"""

from dataclasses import replace

import pytest
from pyiceberg.table.update import AddSnapshotUpdate

from isotherm.commands.explain import explained
from isotherm.commands.inspector import Inspector
from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import JOB_ID
from isotherm.core.model.decisions import Decision, Request, Verdict
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.rewriters import REMEMBERED_MS, WATCHED_MS
from isotherm.iceberg import expiry
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.config import load_config
from isotherm.service.rounds.verdicts import verdicts_rest_on
from support.builders import facts as table_facts
from support.deleting import turn
from support.faults import FaultyCatalog
from support.lab import NEVER_DUE, Lab, event_of, started, uuid_of
from support.rewriting import always, bound, commit, rewritten
from support.worked import configured

HOUR_1 = PartitionKey('{"1000":490897}')
HISTORY = (1, 1, 1)


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path, policy=NEVER_DUE)
    yield lab
    lab.executor.stop()


def rewrite(lab, table, **said):
    """What Spark's `rewrite_data_files` would commit: a replace without a word of Isotherm's. Returns its snapshot."""
    job = bound(table.refresh(), HOUR_1)

    def unsigned(real, of, requirements, updates):
        for update in updates:
            if isinstance(update, AddSnapshotUpdate):
                summary = update.snapshot.summary.additional_properties
                assert summary.pop(JOB_ID)
                summary.update(said)
        return real(of, requirements, updates)

    catalog = FaultyCatalog(lab.catalog, unsigned)
    commit(catalog, job, rewritten(table, job), now_ms=lab.now_ms())
    return table.refresh().current_snapshot()


def expire_all_but_the_head(lab, table):
    """As Iceberg's own expiry does, which leaves the name of a parent that went."""
    metadata = table.refresh().metadata
    head = metadata.current_snapshot_id
    old = [one.snapshot_id for one in metadata.snapshots if one.snapshot_id != head]
    reading = expiry.read(table, old, lab.now_ms())
    done = expiry.expire(
        lab.catalog, "shop.orders", uuid_of(table), reading, "e", always, lab.now_ms(), lambda _: None
    )
    assert done.outcome.kind is OutcomeKind.DONE, done
    assert [head] == [one.snapshot_id for one in table.refresh().metadata.snapshots]


def end(service):
    """The process is over."""
    service.stop()
    service.fold.close()
    service.ledger.close()


def lose(lab, name):
    for suffix in ("", "-wal", "-shm"):
        (lab.root / "state" / f"{name}{suffix}").unlink(missing_ok=True)


def filled(lab):
    table = lab.create()
    for hour in HISTORY:
        lab.append(table, hour, announce=False)
    return table


def facts(service, table):
    return service.fold.table(uuid_of(table)).facts


def against_a_conversion(service, table):
    """What the last look says to a job that makes position deletes of equality deletes; and to one that applies them."""
    uuid, job = uuid_of(table), replace(bound(table.refresh(), HOUR_1), converts_equality=True)
    look = service.compactions.last_look
    loaded = loaded_table(table.refresh(), "shop.orders")
    jobs = {"converts": job, "applies": replace(job, converts_equality=False)}
    tenure = service.events.tenure(uuid)
    against = look.at(loaded, {name: (one, tenure) for name, one in jobs.items()}, lambda _: None)
    return [against[name].why if name in against else None for name in jobs]


@pytest.mark.parametrize(
    ("said", "who"), [({"engine-name": "flink"}, "Flink"), ({}, "another writer")], ids=["named", "not named"]
)
def test_explain_says_who_rewrites_the_table_too(lab, said, who):
    table = filled(lab)
    theirs = rewrite(lab, table, **said).snapshot_id
    lab.settled().stop()
    inspector = Inspector(load_config(configured(lab)))

    conditions = explained(inspector, "shop.orders", None, lab.now_ms()).conditions

    assert [one.text for one in conditions if one.name == "rewriters"] == [
        f"{who} rewrites its files too (snapshot {theirs}): who of the two commits last may have worked in vain"
    ]


@pytest.mark.parametrize("lost", ["", "fold.db"])
def test_a_rewrite_of_somebody_elses_is_remembered_once_it_has_expired(lab, lost):
    table = filled(lab)
    theirs = rewrite(lab, table).snapshot_id
    service = started(lab)
    turn(service)
    assert facts(service, table).rewritten_in == theirs

    lab.append(table, 1, announce=False)
    expire_all_but_the_head(lab, table)
    if lost:
        end(service)
        lose(lab, lost)
        service = started(lab)
    turn(service)

    assert facts(service, table).rewritten_in == theirs
    why, other = against_a_conversion(service, table)
    assert f"another writer rewrites files of this table too (snapshot {theirs})" in why
    assert "another writer" not in (other or "")
    lab.ahead_ms += REMEMBERED_MS + 1
    turn(service)
    assert facts(service, table).rewritten_in is None
    service.stop()


@pytest.mark.parametrize(("version", "is_known"), [("1", False), ("2", True)])
def test_of_a_table_that_was_upgraded_the_first_commit_of_format_2_is_not_the_first_of_all(
    tmp_path, version, is_known
):
    """It has the sequence number 1, whatever was done before and has expired."""
    lab = Lab(tmp_path, policy=NEVER_DUE)
    table = lab.create(**{"format-version": version})
    if version == "1":
        lab.append(table, 1, announce=False)
        with table.refresh().transaction() as upgrade:
            upgrade.upgrade_table_version(2)
        lab.append(table, 1, announce=False)
        expire_all_but_the_head(lab, table)
    else:
        lab.append(table, 1, announce=False)
    assert table.refresh().current_snapshot().sequence_number == 1
    service = started(lab)
    turn(service)

    assert (facts(service, table).watched_since_ms is None) == is_known
    service.stop()
    lab.executor.stop()


def test_one_that_came_and_expired_between_two_looks_is_remembered(lab):
    """Events brought it into the state, and no look at the metadata has ever seen it."""
    table = filled(lab)
    service = started(lab)
    turn(service)
    theirs = rewrite(lab, table)
    lab.announce(event_of(table, theirs))
    lab.append(table, 1)
    service.intake.take(service.events.poll(0))
    expire_all_but_the_head(lab, table)
    turn(service)

    assert facts(service, table).rewritten_in == theirs.snapshot_id
    service.stop()


def test_one_that_was_made_up_is_undone_and_not_remembered(lab):
    table = filled(lab)
    service = started(lab)
    turn(service)
    true = table.refresh().current_snapshot()
    forged = event_of(
        table, snapshot_id=7, parent_id=true.snapshot_id, sequence_number=9, operation="replace"
    )
    lab.announce(forged)
    turn(service)
    lab.append(table, 1)
    turn(service)

    assert facts(service, table).rewritten_in is None
    assert "another writer" not in against_a_conversion(service, table)[0]
    service.stop()


def test_of_a_table_whose_history_is_short_nobody_knows_for_a_fortnight(lab):
    table = filled(lab)
    expire_all_but_the_head(lab, table)
    since_ms = table.current_snapshot().timestamp_ms
    service = started(lab)
    turn(service)

    assert facts(service, table).watched_since_ms == since_ms
    assert "it takes 14d to see whether another writer rewrites" in against_a_conversion(service, table)[0]
    lab.append(table, 1, announce=False)  # commits come, and are seen
    expire_all_but_the_head(lab, table)
    turn(service)
    assert facts(service, table).watched_since_ms == since_ms
    lab.ahead_ms += WATCHED_MS
    turn(service)
    assert facts(service, table).watched_since_ms is None
    service.stop()


def test_a_table_that_is_known_from_its_first_commit_on_needs_no_fortnight(lab):
    table = filled(lab)
    service = started(lab)
    turn(service)
    assert facts(service, table).watched_since_ms is None
    expire_all_but_the_head(lab, table)
    lab.append(table, 1, announce=False)
    turn(service)

    assert facts(service, table).watched_since_ms is None
    service.stop()


def test_what_expired_while_no_daemon_was_there_begins_the_fortnight_again(lab):
    table = filled(lab)
    service = started(lab)
    turn(service)
    end(service)
    for _ in range(3):
        lab.append(table, 1, announce=False)
    expire_all_but_the_head(lab, table)
    service = started(lab)
    turn(service)

    assert facts(service, table).watched_since_ms == table.current_snapshot().timestamp_ms
    service.stop()


@pytest.mark.parametrize("lost", ["", "fold.db"])
def test_what_only_a_search_has_read_counts_as_unseen(lab, lost):
    """A search, or a deletion, loads the table for itself. Somebody expires before its history was followed so far."""
    table = filled(lab)
    service = started(lab)
    turn(service)
    rewrite(lab, table)
    lab.append(table, 1, announce=False)
    expire_all_but_the_head(lab, table)
    decision = Decision(Action.REMOVE_ORPHANS, None, "orphans", Verdict.DUE, 1, "due")
    assert service.searches.begin(Request(service.fold.table(uuid_of(table)).state.table, decision))
    if lost:
        end(service)
        lose(lab, lost)
        service = started(lab)
    turn(service)

    assert facts(service, table).watched_since_ms == table.current_snapshot().timestamp_ms
    assert "it takes 14d" in against_a_conversion(service, table)[0]
    service.stop()


def test_what_another_replica_has_shown_to_a_search_counts_as_unseen(lab):
    """The search's load was answered by a replica that is further than the one that the history is followed by."""
    table = filled(lab)
    service = started(lab)
    turn(service)
    lab.append(table, 1, announce=False)
    old = lab.catalog.load_table("shop.orders")
    rewrite(lab, table)
    lab.append(table, 1, announce=False)
    service.catalog.load("shop.orders")
    service.follower.confirm_loaded(replace(loaded_table(old, "shop.orders"), seen_through=6))
    expire_all_but_the_head(lab, table)
    turn(service)

    assert facts(service, table).watched_since_ms == table.current_snapshot().timestamp_ms
    service.stop()


def test_a_ledger_of_an_older_version_tells_by_what_it_recorded(lab):
    table = filled(lab)
    service = started(lab)
    turn(service)
    theirs = rewrite(lab, table)
    turn(service)
    lab.append(table, 1, announce=False)
    turn(service)
    expire_all_but_the_head(lab, table)
    turn(service)
    service.ledger.db.execute("UPDATE seen SET watched_since_ms = NULL, rewritten_in = NULL")
    end(service)
    lose(lab, "fold.db")
    service = started(lab)
    turn(service)

    assert facts(service, table).rewritten_in == theirs.snapshot_id
    service.stop()


def test_a_damaged_record_of_an_older_version_tells_nothing_and_hides_no_other(lab):
    """Its table is looked at all the same; what the others tell counts, and the time before its history does not."""
    table = filled(lab)
    service = started(lab)
    turn(service)
    theirs = rewrite(lab, table)
    turn(service)
    lab.append(table, 1, announce=False)
    turn(service)
    expire_all_but_the_head(lab, table)
    turn(service)
    service.ledger.db.execute("UPDATE seen SET watched_since_ms = NULL, rewritten_in = NULL")
    service.ledger.db.execute(
        "UPDATE changes SET value = x'00' WHERE snapshot_id != ?", (theirs.snapshot_id,)
    )
    service.ledger.db.commit()
    end(service)
    lose(lab, "fold.db")
    service = started(lab)
    turn(service)

    assert facts(service, table).rewritten_in == theirs.snapshot_id
    assert facts(service, table).watched_since_ms == table.current_snapshot().timestamp_ms
    service.stop()


def test_verdicts_are_made_again_when_it_is_another_that_deletes_may_be_converted():
    kinds = (table_facts(), table_facts(rewritten_in=7), table_facts(watched_since_ms=7))
    free, rewritten, short = (verdicts_rest_on(one) for one in kinds)

    assert free != rewritten == short
