"""/tables: what the daemon has told since it began, worst first, as JSON."""

import json

import pytest
from prometheus_client import CollectorRegistry

from isotherm.contract.identity import TableId
from isotherm.core import observations as seen
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.outside import Outside
from isotherm.core.model.refusals import Reason
from isotherm.runtime.clock import monotonic_s
from isotherm.service.health import Health
from isotherm.telemetry.board import MOST_TABLES, Board
from isotherm.telemetry.http import serve
from support.http_client import get


def planned(name, **more):
    said = {"due": 0, "hot": 0, "unsupported": 0, "waiting": 0, "quarantined": 0, "score": 0.0} | more
    return seen.TablePlanned(
        table=TableId(f"u-{name}", name),
        snapshots=1,
        metadata_bytes=1,
        partitions=10,
        files_per_partition=1,
        backlog_files=0,
        backlog_bytes=0,
        expire_score=0.0,
        metadata_file_bytes=1,
        last_event_at_ms=1,
        **{"oldest_due_at_ms": None, "halted": False, "paused": False} | said,
    )


@pytest.fixture
def board():
    return Board(
        Health(monotonic_s(), tables=frozenset({"a", "b"}), elsewhere=frozenset({"z"}), behind=3),
        lambda: 9_000,
    )


def told(board):
    return json.loads(board.page())


def words(board):
    return [(one["table"], one["word"]) for one in told(board)["tables"]]


def test_tables_stand_by_what_was_told_of_them_worst_first(board):
    failed = Reason.STALE
    for what in (
        planned("clean"),
        planned("due", due=2, score=3.0),
        planned("hot", hot=1, hot_score=1.5),
        planned("whole", score=1.5, due_actions=("expire_snapshots",)),
        planned("below", hot=1, hot_score=0.9),
        planned("moved"),
        seen.TableMoved(TableId("u", "moved")),
        seen.TableFailed("bad", "looking at it", "no such bucket"),
        seen.TrySoon("table silent", "time-out", Outside.TABLE),
        seen.TrySoon("the catalog", "time-out", Outside.CATALOG),
        planned("halted", halted=True),
        seen.TableHalted(TableId("u-halted", "halted"), failed, "look"),
        planned("paused", paused=True, due=1),
        seen.HoldChanged(TableId("u-paused", "paused"), HoldKind.PAUSE, "", True, "a backfill", None),
        planned("quarantined", quarantined=1),
    ):
        board(what)

    assert words(board) == [
        ("bad", "failing"),
        ("silent", "failing"),
        ("halted", "halted"),
        ("quarantined", "jobs fail"),
        ("due", "due"),
        ("whole", "due"),
        ("hot", "hot"),
        ("paused", "paused"),
        ("below", "clean"),
        ("clean", "clean"),
    ]
    whys = {one["table"]: one["why"] for one in told(board)["tables"]}
    assert whys["bad"] == "looking at it: no such bucket"
    assert whys["halted"] == f"{failed}: look"
    assert whys["paused"] == "a backfill"
    assert told(board)["counts"]["failing"] == 2
    board(seen.TableRecovered("bad"))
    board(planned("silent"))
    assert {name for name, word in words(board) if word == "failing"} == set()


def test_a_job_is_told_with_its_progress_until_it_ends_and_failures_count_in_a_row(board):
    table = TableId("u", "t")
    board(planned("t"))
    board(seen.JobStarted(table, Action.COMPACT, "j", "hour=1", 10, 1000, "due"))
    goes_on = seen.JobGoesOn(table, Action.COMPACT, "j", "hour=1", 5, 40, 100, 400, 1000, 30, 300, 0.4, 8)
    board(seen.RewritesRun(table, 1, each=(goes_on,)))
    (job,) = told(board)["jobs"]

    assert (job["table"], job["label"], job["rows_read"], job["share"], job["seconds_left"]) == (
        ("t", "hour=1", 40, 0.4, 8)
    )
    assert words(board) == [("t", "running")]

    def ended(outcome):
        return seen.JobEnded(
            table, Action.COMPACT, "j", "hour=1", outcome, Reason.STALE, "why", None, 1, 1, 1, 1, 1.0, 1
        )

    board(ended(OutcomeKind.FAILED))
    assert (told(board)["jobs"], words(board)) == ([], [("t", "jobs fail")])
    board(ended(OutcomeKind.DONE))
    assert words(board) == [("t", "clean")]


def test_the_answer_has_the_loop_and_a_bound_and_no_secret(board):
    for number in range(MOST_TABLES + 5):
        board(planned(f"t{number:05}"))
    board(seen.TableFailed("bad", "looking", "https://user:secret@store/x?sig=abc"))
    board(seen.RoundPlanned(5, 4, 3, 0.25, False, (Outside.CATALOG,)))
    port = serve("127.0.0.1", 0, CollectorRegistry(), Health(monotonic_s()), board=board)
    status, text = get(port, "/tables")
    answer = json.loads(text)

    assert status == 200
    assert len(answer["tables"]) == MOST_TABLES
    assert answer["counts"] == {"failing": 1, "clean": MOST_TABLES + 5}
    assert len(text) < 500_000
    assert "secret" not in text
    assert (answer["events_behind"], answer["tables_here"], answer["tables_elsewhere"]) == (3, 2, ["z"])
    assert (answer["round"]["due"], answer["round"]["away"]) == (4, ["catalog"])
    assert get(port, "/nothing")[1] == "/metrics /livez /readyz /tables\n"
