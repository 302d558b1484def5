"""A daemon with a policy for everything on a catalog that holds everything, as a process, for ten minutes."""

import re
import uuid

import pytest

from isotherm.contract.summary import JOB_ID
from isotherm.runtime.clock import monotonic_s
from support.announcing import ControlTopic
from support.daemon_process import Daemon
from support.every_kind import every_kind

pytestmark = [pytest.mark.stack, pytest.mark.soak]


def rows_of(table):
    return sorted(row["id"] for row in table.refresh().scan().to_arrow().to_pylist())


def test_for_ten_minutes_it_does_what_it_can_and_says_what_it_cannot(tmp_path, kafka):
    lab, topic = every_kind(tmp_path), f"control-{uuid.uuid4()}"
    before = {name: rows_of(table) for name, table in lab.sound.items()}
    daemon = Daemon(lab, kafka.bootstrap_servers, topic)
    try:
        daemon.until("started")
        control, until_s, hour = ControlTopic(kafka.bootstrap_servers, topic), monotonic_s() + 600, 5
        written = dict.fromkeys(("shop.format_2", "shop.deep.down.below"), 0)
        while monotonic_s() < until_s:
            for name in written:  # the stream goes on, an hour in each turn
                for _ in range(3):
                    control.announce(lab.append(lab.sound[name], hour, announce=False))
                written[name] += 6
            hour += 1
            daemon.until("round_planned", "job_ended", "table_failed")
            assert daemon.get("/livez")[0] == 200
        ended = [one for one in daemon.lines if one["event"] == "job_ended" and one["outcome"] == "done"]
        failed = {one["name"]: one for one in daemon.lines if one["event"] == "table_failed"}
        sizes = daemon.metric("process_resident_memory_bytes")
        code = daemon.stop()
    finally:
        daemon.end()

    assert code == 0
    for name, table in lab.sound.items():
        there = rows_of(table)
        assert len(there) == len(before[name]) + written.get(name, 0)
        assert set(before[name]) <= set(there)
    assert {one["table"] for one in ended if one["action"] == "compact"} >= {*written, "shop.With Space"}
    assert any(JOB_ID in one.summary.additional_properties for one in lab.sound["shop.format_2"].snapshots())
    assert failed.keys() == {*lab.damaged, "bad.nowhere"}
    assert all("roll the table back" in one["remedy"] for one in failed.values())
    traces = [one for one in daemon.lines if one.get("traceback") or one["event"] == "crashed"]
    assert traces == []
    assert not re.search("Traceback", "".join(daemon.other))
    assert sizes is None or sizes < 1024**3
