"""Logs that cannot be written."""

import sys
from pathlib import Path

import structlog

from isotherm.runtime import logs


def test_a_log_on_a_full_disk_stops_nobody(monkeypatch):
    """It ended the daemon, for all tables, though the disk with its state had room."""
    before = structlog.get_config()
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        logs.configure(style="json")
        for _ in range(3):
            logs.get().info("started", text="x" * 100_000)
        monkeypatch.undo()
    structlog.configure(**before)
