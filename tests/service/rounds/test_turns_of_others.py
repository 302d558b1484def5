"""What fails again and again takes no turn from what is well, and a round that begins work ends in time."""

import gc
import weakref
from pathlib import Path

import pytest

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.core import observations as seen
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.values import loaded_table
from isotherm.service.jobs.running_compactions import SMALL_IN_A_SLOT
from isotherm.service.ports import Refused, StoreAway
from support.lab import EAGER, EXPIRING, Lab, of, started

ROUND_S = 10


def a_lab(tmp_path, policy):
    lab = Lab(tmp_path, policy=policy)
    loop = lab.config.loop.model_copy(update={"plan_every_s": float(ROUND_S), "poll_tables_every_s": 60.0})
    lab.config = lab.config.model_copy(update={"loop": loop})
    return lab


def rounds(lab, service, count):
    for _ in range(count):
        service.step(0)
        if len(service.compactions):
            service.maintainer.wait(5)
        lab.ahead_ms += 1000 * ROUND_S


def failed(lab):
    return [one for one in of(lab, seen.JobEnded) if one.outcome is OutcomeKind.FAILED]


@pytest.mark.parametrize("damaged", [2, 4])
def test_tables_with_a_missing_manifest_take_no_turn_from_one_that_is_well(tmp_path, damaged):
    lab = a_lab(tmp_path, EAGER)
    bad = [lab.create(f"bad{number}.t") for number in range(damaged)]
    good = lab.create("shop.good")
    service = started(lab)
    for table in (*bad, good):
        for _ in range(4):
            lab.append(table, 1)
    rounds(lab, service, 10)
    for table in bad:
        listed = read_manifest_list(table.io, table.refresh().current_snapshot().manifest_list)
        Path(listed[0].manifest_path.removeprefix("file://")).unlink()
        for _ in range(4):
            lab.append(table, 9)
    rounds(lab, service, 3)
    for _ in range(4):
        lab.append(good, 9)
    lab.seen.clear()
    rounds(lab, service, 60)
    service.stop()
    lab.executor.stop()

    assert "shop.good" in {one.table.name for one in of(lab, seen.JobEnded)}
    told = failed(lab)
    assert 0 < len(told) < 12 * damaged


def test_tables_that_may_not_be_written_take_no_turn_from_one_of_the_same_store_that_may(tmp_path):
    """Thirty tables whose store refuses the file by which its time is told, and one that it does not refuse."""
    lab = a_lab(tmp_path, EAGER)
    refused = [lab.create(f"others.t{number:02}") for number in range(30)]
    good = lab.create("shop.good")
    service = started(lab)
    rounds(lab, service, 5)
    ask = service.maintainer.clock_skew_ms

    def skew(loaded):
        if loaded.table.name.startswith("others."):
            raise Refused(f"403: nobody may write to {loaded.table.name}")
        return ask(loaded)

    service.maintainer.clock_skew_ms = skew
    service.clocks.seen = type(service.clocks.seen)()
    for table in (*refused, good):
        for hour in (1, 1, 1, 9, 9):
            lab.append(table, hour)
    lab.seen.clear()
    rounds(lab, service, 3)
    service.stop()
    lab.executor.stop()

    assert "shop.good" in {one.table.name for one in of(lab, seen.JobStarted)}
    assert not [one for one in of(lab, seen.TrySoon) if "shop.good" in one.what]


@pytest.mark.parametrize("priority", [1, 3])
def test_a_table_of_a_higher_priority_whose_store_is_away_takes_no_turn(tmp_path, priority):
    lab = a_lab(tmp_path, EAGER)
    urgent = EAGER.replace('"*"', '"vip.*"') + f"work: {{priority: {priority}}}\n"
    (tmp_path / "policies" / "vip.yaml").write_text(urgent)
    away, good = lab.create("vip.t"), lab.create("shop.good")
    service = started(lab)
    rounds(lab, service, 3)
    begin = service.maintainer.start_binding

    def start_binding(loaded, *more, **options):
        if loaded.table.name == "vip.t":
            raise StoreAway("the store of vip does not answer")
        begin(loaded, *more, **options)

    service.maintainer.start_binding = start_binding
    work = (1, 1, 1, 9, 9, 9, 9)
    for hour in work:
        lab.append(away, hour)
    rounds(lab, service, 20)  # it is set aside for longer than the rounds to come
    for hour in work:
        lab.append(good, hour)
    rounds(lab, service, 5)
    service.stop()
    lab.executor.stop()

    assert {one.table.name for one in of(lab, seen.JobStarted)} == {"shop.good"}


@pytest.mark.parametrize("priority", [1, 3])
def test_a_table_of_a_higher_priority_that_is_set_aside_takes_no_turn(tmp_path, priority):
    lab = a_lab(tmp_path, EAGER)
    urgent = EAGER.replace('"*"', '"vip.*"') + f"work: {{priority: {priority}}}\n"
    (tmp_path / "policies" / "vip.yaml").write_text(urgent)
    bad, good = lab.create("vip.t"), lab.create("shop.good")
    service = started(lab)
    rounds(lab, service, 3)
    for hour in (1, 2, 3):
        for _ in range(3):
            lab.append(bad, hour)
    service.consume(service.events.poll(0))
    listed = read_manifest_list(bad.io, bad.refresh().current_snapshot().manifest_list)
    Path(listed[-1].manifest_path.removeprefix("file://")).unlink()
    for _ in range(3):
        lab.append(good, 1)
    for table in (bad, good):
        for _ in range(4):
            lab.append(table, 9)
    rounds(lab, service, 30)
    service.stop()
    lab.executor.stop()

    assert "vip.t" in {one.table.name for one in failed(lab)}
    assert "shop.good" in {one.table.name for one in of(lab, seen.JobEnded)}


def test_what_only_a_schedule_makes_due_has_its_turn_beside_a_backlog(tmp_path):
    lab = a_lab(tmp_path, EAGER)
    nightly = (
        EAGER.replace('"*"', '"shop.nightly"').replace("min_files: 3", "min_files: 30")
        + 'work: {schedules: [{cron: "* * * * *", lasts: 10h, do: [compact], from_score: 0.1}]}\n'
    )
    (tmp_path / "policies" / "nightly.yaml").write_text(nightly)
    busy, little = lab.create("shop.busy"), lab.create("shop.nightly")
    service = started(lab)
    for _ in range(3):
        lab.append(busy, *range(1, 9))
        lab.append(little, 1)
    for table in (busy, little):
        for _ in range(4):
            lab.append(table, 40)
    rounds(lab, service, 60)
    service.stop()
    lab.executor.stop()

    order = [one.table.name for one in of(lab, seen.JobStarted)]
    assert order.count("shop.busy") == 8
    assert order.index("shop.nightly") <= SMALL_IN_A_SLOT  # behind what was begun by then


def test_a_day_for_which_a_stream_stayed_is_no_waiting_and_outdoes_no_priority(tmp_path):
    lab = a_lab(tmp_path, EAGER.replace("cold: {", "cold: {silent_for: 30d, "))
    urgent = EAGER.replace('"*"', '"vip.*"') + "work: {priority: 5}\n"
    (tmp_path / "policies" / "vip.yaml").write_text(urgent)
    slow, vip = lab.create("shop.slow"), lab.create("vip.t")
    service = started(lab)
    for _ in range(3):
        lab.append(slow, 1)
    rounds(lab, service, 3)
    lab.ahead_ms += 24 * 3_600_000
    rounds(lab, service, 3)
    for hour in (1, 1, 1, 9, 9, 9, 9):
        lab.append(vip, hour)
    for _ in range(4):
        lab.append(slow, 9)
    rounds(lab, service, 6)
    service.stop()
    lab.executor.stop()

    assert [one.table.name for one in of(lab, seen.JobStarted)] == ["vip.t", "shop.slow"]


def test_a_store_that_does_not_give_its_time_is_asked_once_a_minute_and_holds_no_round(tmp_path):
    """Each look takes five seconds and ends in nothing, and thirty tables want to expire their snapshots."""
    lab = a_lab(tmp_path, EXPIRING)
    tables = [lab.create(f"shop.t{number:02}") for number in range(30)]
    for table in tables:
        lab.append(table, 1, announce=False)
    service = started(lab)
    rounds(lab, service, 15)
    for table in tables:
        for _ in range(3):
            lab.append(table, 1)
    asked = []

    def skew(loaded):
        asked.append(loaded.table.name)
        lab.ahead_ms += 5000
        raise StoreAway(f"the store of {loaded.table.name}: not done after 5s")

    service.maintainer.clock_skew_ms = skew
    service.clocks.seen = type(service.clocks.seen)()
    turns_s = []
    while sum(turns_s) < 1200:
        before_s = lab.monotonic_s()
        service.step(0)
        lab.ahead_ms += 1000
        turns_s.append(lab.monotonic_s() - before_s)
    service.stop()
    lab.executor.stop()

    assert max(turns_s) < 30
    assert 0 < len(asked) <= 1200 / 60 + 1


class _Held:
    """Stands for a table's metadata, which whoever keeps an error would keep with it."""


def test_a_store_that_gives_no_time_keeps_nothing_of_the_tables_that_asked_for_it(tmp_path):
    lab = a_lab(tmp_path, EXPIRING)
    service = started(lab)
    loaded = loaded_table(lab.create(), "shop.orders")
    held = []

    def skew(_):
        metadata = _Held()
        held.append(weakref.ref(metadata))
        raise StoreAway("not done after 5s")

    real, service.maintainer.clock_skew_ms = service.maintainer.clock_skew_ms, skew
    depths = set()
    for _ in range(5):
        with pytest.raises(StoreAway, match="not done after 5s") as raised:
            service.clocks.check(loaded)
        depths.add(len(raised.traceback))
        del raised
    asked = len(held)
    lab.ahead_ms += 3_600_000
    service.maintainer.clock_skew_ms = real
    gc.collect()

    assert asked == 1
    assert max(depths) <= 3
    assert [one() for one in held] == [None]
    assert service.clocks.check(loaded) is None
    service.stop()
    lab.executor.stop()
