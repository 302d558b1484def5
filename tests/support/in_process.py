"""An executor, and threads, in this process: all is done when it is started, and told when it is asked for.

Half of the time of a whole-daemon test went into starting a child. Those that are about processes take the real one.
"""

from collections.abc import Mapping

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Refusal
from isotherm.iceberg.asking import Asks
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.threads import THREADS, Threads


class InProcess:
    """Each job is done when it is started."""

    def __init__(self) -> None:
        self._done: dict[str, Rewrite | Refusal] = {}

    def running(self) -> frozenset[str]:
        return frozenset(self._done)

    def start(self, job: CompactionJob, description: str, io_properties: Mapping[str, str]) -> None:
        self._done[job.job_id] = attempt(job, description, io_properties)

    def poll(self) -> list[tuple[str, Rewrite | Refusal]]:
        ended, self._done = list(self._done.items()), {}
        return ended

    def progress(self) -> Mapping[str, Progress]:
        """Nobody looks while they run."""
        return {}

    def wait(self, timeout_s: float) -> None:
        """Nothing to wait for."""

    def cancel(self, job_id: str) -> None:
        """What it wrote stays, as of a child that was killed."""
        self._done.pop(job_id, None)

    def cancel_abandoned(self, job: CompactionJob) -> None:
        """Nothing outlives this process."""

    def stop(self) -> None:
        self._done.clear()


class WithoutPauses(Threads):
    """The real threads; between two looks nobody waits: what is to happen meanwhile a test puts there itself."""

    def pause(self, seconds, is_stopped):
        del seconds, is_stopped


class AtOnce:
    """What is done beside the loop is done at once; what is done together still is."""

    def beside(self, limit_s):
        del limit_s
        return _Done()

    def asking(self, limit_s, wait_s):
        del limit_s, wait_s
        return _Asked()

    def within(self, limit_s, store, work):
        del limit_s, store
        return work()

    def each(self, work, items, at_once):
        return THREADS.each(work, items, at_once)

    def pause(self, seconds, is_stopped):
        del seconds, is_stopped


class _Done:
    """One thing after another, each done when it is begun."""

    def __init__(self):
        self._ended = []

    def start(self, name, work, whose=""):
        del whose
        try:
            self._ended.append((name, work(lambda: False)))
        except Exception as err:  # noqa: BLE001 (as a thread would give it)
            self._ended.append((name, err))

    def ended(self):
        ended, self._ended = self._ended, []
        return iter(ended)

    def stop(self, name):
        """It is over."""

    def forget(self, name):
        """Nobody wants to know any more."""
        self._ended = [one for one in self._ended if one[0] != name]

    def close(self):
        """Nothing runs."""

    def wait(self, timeout_s):
        """Nothing to wait for."""


class _Asked:
    """One piece of work, done when somebody is there to answer."""

    def __init__(self):
        self._work = None

    def start(self, work):
        assert self._work is None
        self._work = work

    def go_on(self, answer, *, first_s=None):
        del first_s
        work, self._work = self._work, None
        try:
            return None if work is None else work(Asks(answer))
        except Exception as err:  # noqa: BLE001 (as a thread would give it)
            return err

    def close(self):
        self._work = None
