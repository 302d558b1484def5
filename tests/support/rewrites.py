"""The processes in which an executor rewrites, as the system knows them."""

import psutil

from isotherm.iceberg.compaction import child


def rewrites_of(pid: int) -> list[psutil.Process]:
    """Those that rewrite for a process now."""
    return [
        process
        for process in psutil.Process(pid).children()
        if process.status() != psutil.STATUS_ZOMBIE and child.__file__ in process.cmdline()
    ]
