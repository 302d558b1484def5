"""The processes in which an executor rewrites, as the system knows them."""

from contextlib import suppress
from itertools import chain

import psutil
from tenacity import retry, retry_if_not_result, retry_if_result, stop_after_delay, wait_fixed

from isotherm.iceberg.compaction import fork_program

_SOON = {"wait": wait_fixed(0.01), "stop": stop_after_delay(60)}


def rewrites_of(pid: int) -> list[psutil.Process]:
    """Those that rewrite for a process now: the forks of its program that does nothing but fork."""
    return list(chain.from_iterable(_children(one) for one in fork_servers_of(pid)))


def fork_servers_of(pid: int) -> list[psutil.Process]:
    """The programs themselves."""
    return [one for one in _children(psutil.Process(pid)) if fork_program.__file__ in _command(one)]


def rewriting_below(pid: int) -> list[psutil.Process]:
    """All processes that rewrite, or fork what does, below this one: also those of a worker of Spark."""
    found: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(pid).children(recursive=True)
    return [one for one in found if not _is_gone(one) and fork_program.__file__ in _command(one)]


@retry(retry=retry_if_not_result(len), retry_error_callback=lambda state: state.outcome.result(), **_SOON)
def until_it_rewrites(pid: int) -> list[psutil.Process]:
    """Wait until some process rewrites for this one. The first has to wait for imports."""
    return rewrites_of(pid)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [one for one in process.children() if not _is_gone(one)]
    except psutil.NoSuchProcess:
        return []


def _is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True


# A process that has just been started has no command for a moment: the kernel closes what its parent waits for before it
# lays out the arguments.
@retry(
    retry=retry_if_result(lambda command: command == []),
    retry_error_callback=lambda state: state.outcome.result(),
    **_SOON,
)
def _command(process: psutil.Process) -> list[str]:
    """What a process executes."""
    try:
        return ["(gone)"] if _is_gone(process) else process.cmdline()
    except psutil.NoSuchProcess:
        return ["(gone)"]
