"""The processes in which an executor rewrites, as the system knows them."""

import psutil
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from isotherm.iceberg.compaction import child


def rewrites_of(pid: int) -> list[psutil.Process]:
    """Those that rewrite for a process now."""
    return [process for process in psutil.Process(pid).children() if child.__file__ in _command(process)]


# A process that has just been started has no command for a moment: the kernel closes what its parent waits for before it
# lays out the arguments.
@retry(
    retry=retry_if_result(lambda command: command == []),
    wait=wait_fixed(0.01),
    stop=stop_after_delay(30),
    retry_error_callback=lambda state: state.outcome.result(),
)
def _command(process: psutil.Process) -> list[str]:
    """The command that a process executes; that of one that is gone, or going, is ours no more."""
    try:
        going = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return ["(gone)"] if going else process.cmdline()
    except psutil.NoSuchProcess:
        return ["(gone)"]
