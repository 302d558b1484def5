"""Holds a Spark write open: its rows wait, in the middle of the job, until the test lets them pass."""

import os
import select
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

PATIENCE_S = 120


class Gate:
    """A gate in a Python function that Spark calls for each row; two named pipes, so nobody has to sleep."""

    def __init__(self, folder: Path) -> None:
        self._arrived, self._go, self._passed = (str(folder / name) for name in ("arrived", "go", "passed"))
        os.mkfifo(self._arrived)
        os.mkfifo(self._go)
        # Open for reading and writing, so that neither side waits for the other in order to open it.
        self._arrived_fd = os.open(self._arrived, os.O_RDWR)
        self._go_fd = os.open(self._go, os.O_RDWR)

    def function(self) -> Callable[[Any], Any]:
        """Gives its argument back, but not before the gate is open."""
        arrived, go, passed = Path(self._arrived), Path(self._go), Path(self._passed)

        def hold(value: Any) -> Any:
            if not passed.exists():
                with arrived.open("wb", buffering=0) as bell:
                    bell.write(b"x")
                with go.open("rb", buffering=0) as gate:
                    gate.read(1)
            return value

        return hold

    def wait(self, write: "Future[Any]") -> None:
        """Return once the write stands at the gate: planned, its snapshot taken, not committed."""
        ready, _, _ = select.select([self._arrived_fd], [], [], PATIENCE_S)
        if not ready:
            raise AssertionError(f"the write did not come to the gate; it says {write.exception(timeout=0)}")

    def open(self) -> None:
        """Let everything pass, now and later."""
        Path(self._passed).touch()
        os.write(self._go_fd, b"x" * 100)

    def close(self) -> None:
        os.close(self._arrived_fd)
        os.close(self._go_fd)
