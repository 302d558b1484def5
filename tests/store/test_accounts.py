"""What the ledger remembers of snapshots."""

from contextlib import closing

from isotherm.store import Ledger
from isotherm.store.ledger import Account
from support.builders import change


def test_how_far_a_table_had_come_is_what_its_metadata_said(tmp_path):
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        ledger.account("t", [Account(17, 10**15, "ingest", 1, 1, None, announced=True)])
        assert ledger.seen_through("t") == 0

        ledger.see("t", 7, 100)
        ledger.see("t", 5, 200)

        assert ledger.seen_through("t") == 7


def test_the_newest_changes_are_those_that_were_heard_of_last_in_the_order_of_the_table(tmp_path):
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        ledger.record("t", [(change(number, number - 1), 100 + number) for number in (3, 1, 4, 2)])

        assert [(one.snapshot_id, at_ms) for one, at_ms in ledger.changes("t", 2)] == [(3, 103), (4, 104)]
        assert [one.snapshot_id for one, _ in ledger.changes("t")] == [1, 2, 3, 4]


def test_of_a_snapshot_is_told_whether_it_was_found_before_a_time_and_not_announced(tmp_path):
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        ledger.account("t", [Account(17, 1, "found", 1, 100, None, announced=False)])
        ledger.account("t", [Account(18, 2, "ingest", 1, 100, None, announced=True)])

        assert ledger.is_unannounced("t", 17, 100)
        assert not ledger.is_unannounced("t", 17, 99), "the clock went back since"
        assert not ledger.is_unannounced("t", 18, 100)
        assert not ledger.is_unannounced("t", 19, 100)
        assert not ledger.is_unannounced("u", 17, 100)
        ledger.announced("t", 17)
        assert not ledger.is_unannounced("t", 17, 100)
