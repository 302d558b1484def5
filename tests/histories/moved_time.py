"""Spark's time, moved to the daemon's: an hour passes for both, and nobody waits.

The JVM asks the machine for the time, and nobody can tell it another. So the times in a table's metadata are moved
instead: while Spark is at work they are its own, and otherwise so much later as the daemon's clock is ahead. Between two
steps of Spark the table grows older by what the daemon's clock was moved. Times of files are moved along.

Only Spark asks for the newest version of the metadata alone; all others are left as the daemon knows them.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SLACK_MS = 60_000
"""By so much a time may go back, for Iceberg's Java."""


@dataclass
class MovedTime:
    """The files of one table, and how far the daemon's clock is ahead of Spark's."""

    folder: Path
    """The table's."""
    now_ms: Callable[[], int]
    ahead_ms: Callable[[], int]
    dated: set[Path] = field(default_factory=set)
    """Files whose time was moved already."""

    @contextmanager
    def sparks(self, current: Path | None) -> Iterator[None]:
        """Spark's own time, as long as it is at work; `current` is the metadata that the catalog names."""
        ahead_ms, before = self.ahead_ms(), self.versions()
        if current is not None:
            _rewrite(current, lambda at_ms: at_ms - ahead_ms)
        try:
            yield
        finally:
            new = self.versions() - before
            for path in new if current is None else {*new, current}:
                if path.exists():
                    _rewrite(path, lambda at_ms: at_ms + ahead_ms)
            self.date()

    def versions(self) -> set[Path]:
        """The table's metadata files."""
        return set((self.folder / "metadata").glob("*.metadata.json"))

    def date(self) -> None:
        """Give each new file the time of the daemon's clock."""
        ahead_s = self.ahead_ms() / 1000
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self.dated:
                at_s = path.stat().st_mtime + ahead_s
                os.utime(path, (at_s, at_s))
                self.dated.add(path)

    def set_right(self, path: Path) -> None:
        """Of a version that PyIceberg wrote: it asks the machine for the time of the last update where no snapshot came."""
        said, now_ms = json.loads(path.read_text()), self.now_ms()
        if said["last-updated-ms"] < now_ms - SLACK_MS:
            said["last-updated-ms"] = now_ms
            _write(path, said)


def _rewrite(path: Path, moved: Callable[[int], int]) -> None:
    said: dict[str, Any] = json.loads(path.read_text())
    said["last-updated-ms"] = moved(said["last-updated-ms"])
    for part in ("snapshots", "snapshot-log", "metadata-log"):
        for one in said.get(part, ()):
            one["timestamp-ms"] = moved(one["timestamp-ms"])
    _write(path, said)


def _write(path: Path, said: dict[str, Any]) -> None:
    times = path.stat()
    path.write_text(json.dumps(said))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    # Hadoop's checksum of what was there before.
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
