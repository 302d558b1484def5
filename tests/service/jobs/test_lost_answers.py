"""A request whose answer is lost is looked for, and no file that it may have named is deleted."""

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

from isotherm.core.model.jobs import Action
from isotherm.core.units import HOUR_MS
from isotherm.iceberg.compaction.assert_unmoved import AssertUnmoved
from isotherm.service.jobs.operations import LATE_MS
from support.deleting import closed, every_snapshot_reads, reborn, rows, settled_for_days, turn
from support.lab import settle, uuid_of, with_a_job


def lands_and_is_cut(real, *arguments):
    real(*arguments)
    raise ConnectionError("cut")


def lands_and_then(service, look):
    """The request takes effect, its answer is lost, and from then on each look at the table is `look`."""
    requests = service.maintainer.requests

    def cut(real, *arguments):
        requests.on_load = look
        return lands_and_is_cut(real, *arguments)

    requests.on_commit = cut


def test_a_lost_answer_and_then_not_found_deletes_nothing(lab):
    """A proxy that restarts: the connection is cut, then its default answer is 404."""
    table, service = with_a_job(lab)
    before, away = rows(table), [True]

    def missing(real, *arguments):
        if away:
            raise NoSuchTableError("default backend - 404")
        return real(*arguments)

    lands_and_then(service, missing)
    service.compactions.finish()

    (operation,) = service.ledger.operations()
    assert (operation.state, operation.asserted_head_id is not None) == ("unknown", True)
    assert rows(table) == before
    turn(service, 2)
    away.clear()
    settle(service)
    assert service.ledger.operations()[-1].state == "done"
    settled_for_days(lab, service)
    assert rows(table) == before
    service.stop()


def test_a_table_that_was_renamed_while_the_end_was_unknown_keeps_its_files(lab):
    table, service = with_a_job(lab)
    before, unseen = rows(table), [True]

    def away(real, *arguments):
        if unseen:
            raise ConnectionError("away")
        return real(*arguments)

    lands_and_then(service, away)
    service.compactions.finish()
    lab.catalog.rename_table("shop.orders", "shop.orders_v1")
    lab.create("shop.orders")
    unseen.clear()
    turn(service, 6)
    settled_for_days(lab, service)

    moved = lab.catalog.load_table("shop.orders_v1")
    assert rows(moved) == before
    ended = [one for one in service.ledger.operations() if one.table.uuid == uuid_of(table)]
    assert {one.state for one in ended if one.action is not Action.REMOVE_ORPHANS} == {"done"}
    assert {one.reason for one in ended if one.action is Action.REMOVE_ORPHANS} == {"other_history"}
    service.stop()


def test_files_of_an_unknown_commit_are_not_cleaned_up(lab):
    table, service = with_a_job(lab)

    def cut(*_):
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = cut
    service.compactions.finish()

    (operation,) = service.ledger.operations()
    assert operation.state == "unknown"
    assert service.ledger.deletions(uuid_of(table)) == {}
    home = lab.root / "warehouse"
    assert list(home.rglob(f"isotherm-{operation.job_id}-*.parquet"))
    assert list(home.rglob(f"*isotherm-{operation.job_id}*.avro"))

    # Once the head has moved on, they are marked; after the grace, and a look, they go.
    lab.append(table, 9)
    turn(service, 2)
    assert {one.state for one in service.ledger.operations() if one.job_id == operation.job_id} == {"failed"}
    assert list(home.rglob(f"isotherm-{operation.job_id}-*.parquet"))
    service.maintainer.requests.on_commit = None
    settled_for_days(lab, service)
    assert not list(home.rglob(f"*isotherm-{operation.job_id}*"))
    every_snapshot_reads(table)
    service.stop()


def test_a_request_that_lands_after_it_was_given_up_finds_its_files(lab):
    """The head comes back by a rollback, and a proxy lets the request through at last."""
    table, service = with_a_job(lab)
    before, held = rows(table), []

    def keep(_, *arguments):
        held.append(arguments)
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = keep
    service.compactions.finish()
    head = table.refresh().current_snapshot().snapshot_id
    older = table.metadata.snapshots[-2].snapshot_id
    table.manage_snapshots().set_current_snapshot(older).commit()
    turn(service, 2)
    assert service.ledger.operations()[-1].reason in {"lost", "conflict"}
    table.refresh().manage_snapshots().set_current_snapshot(head).commit()
    asked, requirements, updates = held[0]
    # A REST catalog knows nothing of what we assert of others.
    lab.catalog.commit_table(
        asked, [one for one in requirements if not isinstance(one, AssertUnmoved)], updates
    )
    service.maintainer.requests.on_commit = None
    settled_for_days(lab, service)

    assert rows(table) == before
    every_snapshot_reads(table)
    service.stop()


def test_a_job_whose_snapshot_expired_unseen_keeps_what_a_tag_still_needs(lab):
    """It landed, nobody knew; another daemon compacted again and expired its snapshot; a tag names one in between."""
    table, service = with_a_job(lab)
    before = rows(table)
    faulty = service.maintainer.requests
    unseen = [True]

    def away(real, *arguments):
        if unseen:
            raise ConnectionError("away")
        return real(*arguments)

    def cut(real, *arguments):
        faulty.on_load = away
        return lands_and_is_cut(real, *arguments)

    faulty.on_commit = cut
    service.compactions.finish()
    landed = table.refresh().current_snapshot().snapshot_id
    lab.append(table, 9)
    tagged = table.refresh().current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(tagged, "q3").commit()
    table.refresh().overwrite(table.scan().to_arrow())  # takes the job's files out of the head
    lab.append(table, 9)
    table.refresh().maintenance.expire_snapshots().by_ids([landed]).commit()
    unseen.clear()
    settled_for_days(lab, service)

    found = table.refresh().scan(snapshot_id=tagged).to_arrow()
    assert set(before) < set(found["id"].to_pylist())
    every_snapshot_reads(table)
    service.stop()


def test_a_table_made_again_under_the_name_of_an_open_job_ends_nobody(lab):
    _, service = with_a_job(lab)
    closed(service)
    lab.catalog.drop_table("shop.orders")
    again = lab.create(spec=UNPARTITIONED_PARTITION_SPEC)
    lab.append(again, 1)

    service = reborn(lab)
    turn(service, 6)

    assert len(rows(again)) == 2
    assert {one.state for one in service.ledger.operations()} == {"running"}
    service.stop()


def is_cut(*_):
    """The request takes no effect, as far as anybody knows."""
    raise ConnectionError("cut")


def fates(service, action):
    return [(one.state, one.reason) for one in service.ledger.operations() if one.action is action]


def test_a_request_is_waited_for_from_when_it_was_sent_however_long_its_job_took(lab):
    """The table rests, so nothing but the time ends the waiting."""
    _, service = with_a_job(lab)
    service.maintainer.requests.on_commit = is_cut
    lab.ahead_ms += LATE_MS - HOUR_MS
    service.compactions.finish()
    assert fates(service, Action.COMPACT)[-1] == ("unknown", "unknown")

    lab.ahead_ms += LATE_MS - HOUR_MS
    turn(service)
    assert fates(service, Action.COMPACT)[-1] == ("unknown", "unknown")
    lab.ahead_ms += 2 * HOUR_MS
    turn(service)
    assert fates(service, Action.COMPACT)[-1] == ("failed", "no_answer")
    service.stop()
