"""Branches and tags that went with an expiry are looked for beside the loop: there may be thousands of versions."""

import threading
from pathlib import Path
from typing import Any

import pytest

from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.iceberg.values import loaded_table
from isotherm.service.ports import NotYetKnown
from support.faults import OnRest
from support.lab import Lab

LIMIT_S = 60


def test_the_loop_does_not_wait_for_a_store_with_the_versions_of_a_table(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in range(3):
        lab.append(table, hour, announce=False)
    going, base = [one.snapshot_id for one in table.metadata.snapshots][:1], table.metadata_location
    table.manage_snapshots().create_tag(going[0], "q3").commit()
    table.manage_snapshots().remove_tag("q3").commit()
    table.refresh().maintenance.expire_snapshots().by_ids(going).commit()
    loaded = loaded_table(lab.catalog.load_table("shop.orders"), "shop.orders")
    answers, is_asked, real = threading.Event(), threading.Event(), loaded.handle.io.new_input

    def held(location: str) -> Any:
        is_asked.set()
        assert answers.wait(LIMIT_S)
        return real(location)

    loaded.handle.io.new_input = held
    maintainer = IcebergMaintainer(OnRest(lab.catalog), lab.executor, lab.now_ms)

    def lost() -> Any:
        return maintainer.lost_refs("job", loaded, base, going)

    with pytest.raises(NotYetKnown):
        lost()
    assert is_asked.wait(LIMIT_S)
    with pytest.raises(NotYetKnown):
        lost()
    answers.set()
    maintainer.wait(LIMIT_S)

    (found,) = lost()
    assert "q3" in found
    maintainer.stop()
