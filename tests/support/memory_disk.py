"""Where the tests' folders are: in memory, if there is room, because stores wait for the disk with each transaction."""

import os
import shutil
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")  # noqa: S108 (where there is such a disk, a sync of it costs nothing)
ROOM_BYTES = 4 * 2**30
"""Ten times what all tests have there at most, 340 MB. A container has 64 MiB, unless somebody gives it more."""


def use_memory() -> None:
    """Have pytest make its folders in memory, in this process and those that it starts, unless somebody chose already."""
    has_disk = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    if has_disk and min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) > ROOM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
