"""No why in the ledger has a secret in it, wherever it comes from."""

from isotherm.contract.identity import TableId
from isotherm.core.deletion import Cause, Mark, Seen
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import Action, Outcome
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.store import Ledger
from isotherm.store.ledger import Operation

SIGNED = "GET 'https://acct.blob.core.windows.net/w?sv=1&sig=hunter2': 403"
TOLD = "GET 'https://acct.blob.core.windows.net/w?***': 403"


def test_a_why_is_kept_without_the_secrets_in_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    begun = Operation("job", TableId("u", "t"), Action.EXPIRE, None, "", "", "", 0, 1_000)
    ledger.save(begun)
    ledger.save(begun.ended(Outcome.refused("job", Refusal(Reason.STORAGE, SIGNED)), 2_000))
    # A file's name is not a why: it must stay what it is.
    paths = ["s3://lake/t/a?sig=b", "s3://lake/t/b"]
    ledger.mark(
        "u", "job", [Mark(path, "job", Cause.LEFTOVER, Seen(7, 70)) for path in paths], 1, due_at_ms=1
    )
    ledger.postponed("u", {paths[0]: SIGNED}, 2)
    ledger.kept("u", {paths[1]: SIGNED}, 2)
    ledger.note_obstacle("clock", SIGNED)
    ledger.hold(Hold(HoldKind.HALT, "u", "t", SIGNED, 1), told=False)

    assert ledger.db.execute("SELECT path, why FROM deletions ORDER BY path").fetchall() == [
        (path, TOLD) for path in paths
    ]
    assert ledger.obstacles() == {"clock": TOLD}
    assert ledger.halted("u") == TOLD
    assert TOLD in ledger.db.execute("SELECT value FROM operations").fetchone()[0]
    ledger.close()
    assert [file for file in tmp_path.iterdir() if b"hunter2" in file.read_bytes()] == []
