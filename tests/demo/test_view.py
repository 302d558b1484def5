"""What the demo shows, and what it reads in the logs: no server needed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from isotherm.demo.logbook import Logbook, Tail
from isotherm.demo.view import Heat, Picture, Strip, draw, plain

PICTURE = Picture(
    phase="waiting for ingest to catch up",
    elapsed_s=171.4,
    left_s=98.7,
    rows=1_234_567,
    rows_per_s=123.4,
    lag_s=4.56,
    strips=[Strip("order_lines_of_the_shop", [Heat.HOT, Heat.COLD, Heat.COMPACTED] * 40, 1234, 5678, 90)],
    jobs=["compact shop.order_lines order_time_hour=2026-10-27-11 and a very long name of a partition"],
    last_job="compact shop.orders order_time_hour=2026-10-27-16: 6 → 1",
    promises={"cold_only": (True, "15 commits, 15 partitions, 0 hot"), "same_rows": (False, "9" * 90)},
    news=["killed ingest and its JVM at 39 s"],
)


def drawn(picture: Picture) -> list[str]:
    console = Console(width=200, record=True, force_terminal=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(draw(picture))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_view_fits_into_80_columns() -> None:
    lines = drawn(PICTURE)

    assert max(map(len, lines)) <= 80
    assert any(line.startswith("order_lines_ ") and "▓░■" in line for line in lines)
    assert any(line.startswith("✗ same rows") for line in lines)


def test_the_newest_partitions_are_shown_where_not_all_fit() -> None:
    strip = Strip("orders", [Heat.COMPACTED] * 100 + [Heat.HOT], 1, 0, 0)
    line = next(
        line for line in drawn(Picture("", 0, None, 0, 0, None, [strip])) if line.startswith("orders")
    )

    assert "■▓" in line
    assert line.count("■") < 100


def test_a_line_for_no_terminal_names_what_is_broken() -> None:
    line = plain(PICTURE)

    assert line.startswith("[ 171 s] waiting for ingest to catch up, 99 s left: 1,234,567 rows, 123/s")
    assert "40 partitions compacted (5678 → 90 files)" in line
    assert line.endswith("BROKEN: same_rows")


def test_what_the_witness_has_missed_is_told_with_and_without_a_terminal() -> None:
    picture = replace(PICTURE, unseen="the witness has not seen everything: shop.orders:\n locked")

    assert plain(picture).endswith("; the witness has not seen everything: shop.orders: locked")
    assert "the witness has not seen everything" in drawn(picture)[-1]


def book(tmp_path: Path, **texts: str) -> Logbook:
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Logbook(Tail(tmp_path / "ingest"), Tail(tmp_path / "daemon"))


def test_what_the_writer_complains_of_is_read_behind_progress_bars_too(tmp_path: Path) -> None:
    line = (
        '[Stage 7:>  (0 + 2) / 5]\r   {"event": "merge_recomputed", "table": "shop.orders", "intent_id": "i1", '
        '"base_snapshot_id": 1, "head_snapshot_id": 2, "timestamp": "2026-11-21T14:35:10.964Z", "level": "warning"}\n'
    )
    log = book(
        tmp_path, ingest=line + "java.lang.Error: {not json}\n" + '{"event": "batch_failed", "table": "t", '
    )
    log.read()

    [again] = log.recomputed["shop.orders"]
    assert (again.intent_id, again.base_id, again.head_id, again.at_ms) == ("i1", 1, 2, 1_795_271_710_964)
    assert log.failed == {}

    with (tmp_path / "ingest").open("a", encoding="utf-8") as file:
        file.write('"error": "no", "seconds": 2.5, "timestamp": "2026-11-21T14:35:12Z"}\n')
    log.read()

    [failed] = log.failed["t"]
    assert (failed.error, failed.at_ms - failed.started_at_ms) == ("no", 2500)


def test_jobs_that_a_dead_daemon_left_are_not_running(tmp_path: Path) -> None:
    def job(event: str, **more: Any) -> str:
        fields = {"event": event, "job_id": "a", "action": "compact", "table": "t", "label": "p", **more}
        return str(fields).replace("'", '"').replace("None", "null") + "\n"

    log = book(tmp_path, daemon=job("job_started"))
    log.read()
    assert list(log.jobs_running.values()) == ["compact t p"]

    with (tmp_path / "daemon").open("a", encoding="utf-8") as file:
        file.write('{"event": "started"}\n')
    log.read()
    assert log.jobs_running == {}
