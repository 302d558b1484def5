"""Dead letters are replayed on real parts, beside a fold of their messages in plain Python."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from isotherm_ingest.announce.heartbeat import Heartbeat
from isotherm_ingest.batches.fan_out import fan_out
from isotherm_ingest.marks import TakenOver
from isotherm_ingest.replay import replay as replays
from isotherm_ingest.replay.choosing import Fate
from isotherm_ingest.replay.outcome import Asked, Replayed
from isotherm_ingest.replay.replay import NotAlone
from isotherm_ingest.tables.offset_vector import REPLAYED
from isotherm_ingest.tables.writer import TableWriter
from support.changes import Source, latest, moment
from support.ingest_lab import Lab
from support.wire import PLACEHOLDER

pytestmark = [pytest.mark.spark, pytest.mark.stack]
STREAMS = r"""
  - topics: NS\.public\.(orders|customers)
    table: NS.{table}
    out_of_range: dead_letter
  - topics: NS\.public\.payments
    table: NS.{table}
    mode: changelog
    out_of_range: dead_letter
"""
TABLES = ("orders", "customers", "payments")
NEVER = "infinity"
"""No moment of a table; with `null` it is none."""


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics(*TABLES)
    yield lab
    lab.close()


def mend(lab: Lab) -> None:
    """What was no time becomes null from now on."""
    streams = tuple(one.model_copy(update={"out_of_range": "null"}) for one in lab.config.streams)
    lab.config = lab.config.model_copy(update={"streams": streams})


def replay(lab: Lab, table: str, **asked: Any) -> Replayed:
    return replays.replay(
        lab.config, Asked(f"{lab.name}.{table}", take_over=True, **asked), lambda: lab.spark
    )


def counts(found: Replayed) -> dict[Fate, int]:
    assert found.told.keys() == found.letters.keys()
    fates = [fate for fate, _ in found.told.values()]
    return {fate: fates.count(fate) for fate in set(fates)}


def vectors(lab: Lab, table: str) -> Any:
    now = lab.lake.load(f"{lab.name}.{table}")
    assert now is not None
    token = now.token(lab.name)
    assert token is not None
    return token.source


def test_a_changelog_gets_each_letter_once(lab: Lab) -> None:
    source = Source("payments")
    for number in range(12):
        lab.send("payments", source.insert(number, **({"at": NEVER} if number % 3 == 1 else {})))
    lab.ingest()
    mend(lab)
    assert len(lab.rows("payments")) == 8
    before = vectors(lab, "payments")
    found = replay(lab, "payments")

    assert counts(found) == {Fate.WRITTEN: 4}
    assert vectors(lab, "payments") == before
    rows = {row["_offset"]: (row["id"], row["at"]) for row in lab.rows("payments")}
    assert {offset: number for offset, (number, _) in rows.items()} == {
        number: number for number in range(12)
    }
    assert [offset for offset, (_, at) in sorted(rows.items()) if at is None] == [1, 4, 7, 10]
    assert counts(replay(lab, "payments")) == {Fate.THERE: 4}
    assert len(lab.rows("payments")) == 12
    lab.again()
    lab.send("payments", source.insert(77))
    lab.ingest()
    assert len(lab.rows("payments")) == 13
    assert len(lab.dead()) == 4


def test_a_mirror_takes_the_newest_change_of_a_key(lab: Lab) -> None:
    source = Source("orders")
    lab.send("orders", *(source.insert(number) for number in range(8)))
    lab.send("orders", source.update(1, at=NEVER, name="lost"))  # superseded by an update that tells all
    lab.send("orders", source.update(2, at=NEVER, name="lost"))  # by a delete
    lab.send("orders", source.update(3, at=NEVER, name="late"))  # the newest
    lab.send("orders", source.update(4, at=NEVER, name="old"), source.update(4, at=NEVER, name="new"))
    lab.send("orders", source.insert(20, at=NEVER))  # never seen
    lab.send("orders", source.update(5, at=NEVER, name="told"))  # its value is kept by the next one
    lab.send("orders", source.update(1, at=source.rows[6]["at"], name="good"), source.delete(2))
    lab.send("orders", source.update(5, at=source.rows[6]["at"], name=PLACEHOLDER, paid=True))
    lab.ingest()
    mend(lab)
    assert len(lab.dead()) == 7
    before = vectors(lab, "orders")
    found = replay(lab, "orders")

    assert counts(found) == {Fate.WRITTEN: 4, Fate.SUPERSEDED: 3}
    assert vectors(lab, "orders") == before
    source.rows[5]["name"] = "told"
    expected = [{**row, "at": None if row["at"] == NEVER else row["at"]} for row in source.rows.values()]
    assert latest(expected) == latest(lab.rows("orders"))
    heads = len(lab.snapshots("orders"))
    assert counts(replay(lab, "orders")) == {Fate.THERE: 7}
    assert len(lab.snapshots("orders")) == heads
    assert REPLAYED in lab.snapshots("orders")[-1].summary.additional_properties


class KilledError(Exception):
    """The process dies here."""


def killing(when: str) -> Any:
    """A writer whose process dies before its commit, or right after it."""

    class Killed(TableWriter):
        def write(self, ready: Any, done: Any) -> Any:
            if when == "before":
                raise KilledError
            super().write(ready, done)
            raise KilledError

    return Killed


@pytest.mark.parametrize(("when", "then"), [("before", Fate.WRITTEN), ("after", Fate.THERE)])
def test_a_replay_that_is_killed_goes_on_where_it_was(lab: Lab, when: str, then: Fate) -> None:
    sources = {table: Source(table) for table in ("orders", "payments")}
    for table, source in sources.items():
        lab.send(table, source.insert(1), source.insert(2, at=NEVER), source.insert(3))
    lab.ingest()
    mend(lab)
    for table in sources:
        with pytest.raises(KilledError):
            replays.replay(
                lab.config,
                Asked(f"{lab.name}.{table}", take_over=True),
                lambda: lab.spark,
                make_writer=killing(when),
            )
        assert counts(replay(lab, table)) == {then: 1}
        assert [1, 2, 3] == sorted(row["id"] for row in lab.rows(table))


def test_letters_at_the_end_are_not_read_once_more_where_the_marks_are_lost(lab: Lab) -> None:
    """The table's own word ends before them. Once they are rows of it, it says so."""
    source = Source("payments")
    lab.send("payments", source.insert(1))
    lab.ingest()
    lab.send("payments", source.insert(2, at=NEVER), source.insert(3, at=NEVER))
    lab.ingest()
    mend(lab)
    assert vectors(lab, "payments").vector == {lab.topic("payments"): {0: 1}}
    assert counts(replay(lab, "payments")) == {Fate.WRITTEN: 2}
    assert vectors(lab, "payments").vector == {lab.topic("payments"): {0: 3}}
    lab.close()
    lab.lose_marks()
    lab.again()
    lab.send("payments", source.insert(4))
    lab.ingest()

    assert [1, 2, 3, 4] == sorted(row["id"] for row in lab.rows("payments"))


def test_a_driver_that_runs_is_ended_or_the_replay_refuses(lab: Lab) -> None:
    source = Source("payments")
    lab.send("payments", source.insert(1), source.insert(2, at=NEVER))
    lab.ingest()
    with pytest.raises(NotAlone, match="before this version"):
        replays.replay(lab.config, Asked(f"{lab.name}.payments"), lambda: lab.spark)
    heartbeat = Heartbeat(lab.broker, lab.config.kafka.announced_topic, lab.name)
    heartbeat.start()
    with pytest.raises(NotAlone, match="that it runs"):
        replays.replay(lab.config, Asked(f"{lab.name}.payments"), lambda: lab.spark)
    dry = replays.replay(lab.config, Asked(f"{lab.name}.payments", dry_run=True), lambda: lab.spark)
    assert (dry.to_try, dry.told) == (1, {})
    lab.send("payments", source.insert(3))
    lab.ingest()  # nobody was fenced

    heartbeat.stop()
    found = replays.replay(lab.config, Asked(f"{lab.name}.payments"), lambda: lab.spark)
    assert [fate for fate, _ in found.told.values()] == [Fate.BAD], "its cause was not mended"
    assert found.is_open
    lab.send("payments", source.insert(4))
    with pytest.raises(TakenOver):
        lab.ingest()


def test_a_driver_that_begins_in_the_middle_of_a_replay_ends_it(lab: Lab) -> None:
    source = Source("orders")
    lab.send("orders", source.insert(1), source.insert(2, at=NEVER))
    lab.ingest()
    mend(lab)
    begun: list[Any] = []

    def read(*given: Any) -> Any:
        if not begun:
            begun.append(lab.again())
        return fan_out(*given)

    with pytest.raises(TakenOver):
        replays.replay(lab.config, Asked(f"{lab.name}.orders", take_over=True), lambda: lab.spark, read=read)

    assert [1] == [row["id"] for row in lab.rows("orders")]
    lab.send("orders", source.insert(3))
    lab.ingest()
    assert {Fate.WRITTEN: 1} == counts(replay(lab, "orders"))
    assert [1, 2, 3] == sorted(row["id"] for row in lab.rows("orders"))
    assert lab.events("orders")[-1].snapshot_id == lab.snapshots("orders")[-1].snapshot_id


@pytest.mark.parametrize("seed", range(2))
def test_random_letters_of_several_partitions_and_tables_become_the_rows_of_a_fold(
    lab: Lab, seed: int
) -> None:
    dice = random.Random(seed)
    lab.grow("orders", 2)
    source = Source("orders")
    log: list[tuple[int, str, dict[str, Any]]] = []
    for _ in range(3):
        for _ in range(20):
            number = dice.randrange(8)
            at = {"at": NEVER} if dice.random() < 0.4 else {"at": moment(number)}
            if number in source.rows and dice.random() < 0.2:
                sent = source.delete(number)
            elif number in source.rows:
                sent = source.update(number, name=f"n{len(log)}", **at)
            else:
                sent = source.insert(number, **at)
            log.append((number, *source.log[-1]))
            lab.send("orders", sent, partition=number % 2)
        lab.ingest()
    mend(lab)
    while counts(replay(lab, "orders", since_ms=dice.choice([None, 0]))).keys() - {
        Fate.THERE,
        Fate.SUPERSEDED,
    }:
        pass
    rows: dict[int, dict[str, Any]] = {}
    for number, op, row in log:
        rows[number] = {**row, "at": None if row["at"] == NEVER else row["at"]}
        if op == "d":
            del rows[number]

    assert latest(rows.values()) == latest(lab.rows("orders"))
    lab.again()
    lab.ingest()
    assert latest(rows.values()) == latest(lab.rows("orders"))
