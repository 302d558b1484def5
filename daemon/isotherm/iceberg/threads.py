"""Work beside the loop, in threads. What only waits (servers, time-outs, clients of Kafka) has threads of its own.

A simulation puts its own in their place, which does everything in turn.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from threading import Event, Semaphore, Thread
from typing import Generic, TypeVar

from isotherm.iceberg.asking import Answer, Asking, Question
from isotherm.iceberg.patience import Patience
from isotherm.iceberg.stopping import IsStopped
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.hanging import Hanging, NotBegunError

Result = TypeVar("Result")
Item = TypeVar("Item")


class Beside(Generic[Result]):
    """Work beside the loop: one thing after another in one thread, each under a name, stoppable, and with a limit.

    The limit is for one step: work that keeps asking whether it is stopped goes on, for three hours at first, and
    longer each time that it was broken off (`patience`). Work that never asks is one step. What takes longer is given up:
    its thread is left to itself (it ends with the process), and the next thing gets a new one. Such work may still do what it was about to; it must be safe at any time. What was forgotten
    keeps the next thing waiting until it has ended, for as long as the limit: else threads would pile up. Where many hang
    for ever, most of what comes next is not begun, and ends at once with a TimeoutError (`hanging`).
    """

    def __init__(
        self, limit_s: float, clock_s: Callable[[], float] = monotonic_s, hanging: Hanging | None = None
    ) -> None:
        self._hanging = hanging or Hanging(clock_s)
        self._limit_s = limit_s
        self._clock_s = clock_s
        self._patience = Patience()
        self._waiting: dict[str, tuple[Callable[[IsStopped], Result], str]] = {}
        self._running: tuple[str, Future[Result], _Progress] | None = None
        self._forgotten: tuple[Future[Result], float] | None = None
        """What nobody wants any more, and when that was said."""

    def start(self, name: str, work: Callable[[IsStopped], Result], whose: str = "") -> None:
        """Begin some work, when what was begun before is over.

        Args:
            name: by which it is given back.
            work: what is done.
            whose: by which the same work is known when it is begun again, where its name is another one then.
        """
        self._waiting[name] = work, whose or name
        self._go_on()

    def ended(self) -> Iterator[tuple[str, Result | BaseException]]:
        """What ended since the last call, with its result or its error; each is given once."""
        if self._running is not None:
            name, future, progress = self._running
            if future.done():
                self._running = None
                yield name, future.exception() or future.result()
            elif (why := progress.refusal(self._limit_s)) is not None:
                progress.stop.set()
                self._running = None
                self._hanging.give_up(future)
                yield name, why
        self._go_on()

    def stop(self, name: str) -> None:
        """Have some work end soon; it is still given by `ended`."""
        if self._running is not None and self._running[0] == name:
            self._running[2].stop.set()

    def forget(self, name: str) -> None:
        """Have some work end soon, and never give it."""
        self._waiting.pop(name, None)
        if self._running is not None and self._running[0] == name:
            _, future, progress = self._running
            progress.stop.set()
            self._running, self._forgotten = None, (future, self._clock_s())

    def wait(self, timeout_s: float) -> None:
        """Return when something has ended, or the time is over."""
        if self._running is not None:
            wait([self._running[1]], timeout_s)
        elif self._waiting and self._forgotten is not None:
            wait([self._forgotten[0]], timeout_s)

    def close(self) -> None:
        """End everything; the step that is being done ends by itself, or with the process."""
        self._waiting.clear()
        if self._running is not None:
            self._running[2].stop.set()
            self._running = None

    def _go_on(self) -> None:
        if self._running is not None or not self._waiting:
            return
        if self._forgotten is not None:
            forgotten, since_s = self._forgotten
            if not forgotten.done() and self._clock_s() - since_s <= self._limit_s:
                return
            self._forgotten = None
            self._hanging.give_up(forgotten)
        name = next(iter(self._waiting))
        work, whose = self._waiting.pop(name)
        future, progress = Future[Result](), _Progress(self._clock_s, self._patience, whose)
        self._running = (name, future, progress)
        try:
            self._hanging.begin(future)
        except NotBegunError as err:
            future.set_exception(err)
            return

        def run() -> None:
            try:
                future.set_result(work(progress.report))
            except BaseException as err:  # noqa: BLE001 (it is given to whoever asks)
                future.set_exception(err)

        try:
            Thread(target=run, name=f"isotherm-beside-{name}", daemon=True).start()
        except RuntimeError as err:  # the system gives no thread now
            future.set_exception(NotBegunError(str(err)))


class _Progress:
    """When some work began, and when it asked last whether it is stopped."""

    def __init__(self, clock_s: Callable[[], float], patience: Patience, whose: str) -> None:
        self._clock_s = clock_s
        self._patience = patience
        self._whose = whose
        self.stop = Event()
        self._began_s = self._at_s = clock_s()

    def report(self) -> bool:
        """Note that the work goes on; whether it is to stop."""
        self._at_s = self._clock_s()
        return self.stop.is_set()

    def refusal(self, limit_s: float) -> TimeoutError | None:
        """Why the work is given up now, where a step may take so long; or None where it goes on."""
        now_s = self._clock_s()
        if now_s - self._at_s > limit_s:
            return TimeoutError(f"not done after {limit_s:.0f}s")
        if now_s - self._began_s > self._patience.allowed_s(self._whose):
            return self._patience.broken_off(self._whose)
        return None


class Threads:
    """How work is done beside the loop."""

    def __init__(self) -> None:
        self._hanging_within: dict[str, Hanging] = {}
        """Of what the loop waited for itself, by store: those where something hangs."""

    def beside(self, limit_s: float) -> "Beside[Result]":
        """For one thing after another, each step with this limit."""
        return Beside(limit_s)

    def asking(self, limit_s: float, wait_s: float) -> "Asking[Question, Answer, Result]":
        """For one piece of work at a time that asks the loop."""
        return Asking(limit_s, wait_s)

    def within(self, limit_s: float, store: str, work: Callable[[], Result]) -> Result:
        """What some work with a store gives; what takes longer is left to itself, and must be safe at any time.

        Raises:
            TimeoutError: it took longer, or so much hangs in that store that it was not begun.
        """
        hanging = self._hanging_within.setdefault(store, Hanging())
        done: Beside[Result] = Beside(limit_s, hanging=hanging)
        done.start("", lambda _: work())
        done.wait(limit_s)
        try:
            for _, result in done.ended():
                if isinstance(result, BaseException):
                    raise result
                return result
            raise TimeoutError(f"not done after {limit_s:.0f}s")
        finally:
            if hanging.is_empty():
                self._hanging_within.pop(store, None)

    def each(self, work: Callable[[Item], Result], items: Sequence[Item], at_once: int) -> Iterator[Result]:
        """The same for each of some items, so many at once; the results in their order.

        No more than twice as many are begun before what they gave is taken: results may be large. Where the system gives
        fewer threads, fewer are at once; where it gives none, one after another.
        """
        results = {place: Future[Result]() for place in range(len(items))}
        places, stop, room = deque(results), Event(), Semaphore(2 * at_once)

        def run() -> None:
            while room.acquire() and not stop.is_set():
                try:
                    place = places.popleft()
                except IndexError:
                    return
                result = results[place]
                try:
                    result.set_result(work(items[place]))
                except BaseException as err:  # noqa: BLE001 (it is given to whoever asks)
                    result.set_exception(err)
                del result

        try:
            for number in range(min(at_once, len(items))):
                if not places:  # those that run have it all in hand
                    break
                try:
                    # Threads that end with the process, whatever they wait for.
                    Thread(target=run, name=f"isotherm-each-{number}", daemon=True).start()
                except RuntimeError:  # no more
                    if not number:
                        yield from map(work, items)
                        return
                    break
            for place in range(len(items)):
                results[place].exception()  # waits for it, at half of the cost of `wait`
                yield results.pop(place).result()
                room.release()
        finally:
            stop.set()
            room.release(at_once)

    def pause(self, seconds: float, is_stopped: IsStopped) -> None:
        """Let some time pass, unless the work is stopped."""
        until_s = monotonic_s() + seconds
        while monotonic_s() < until_s and not is_stopped():
            Event().wait(min(seconds, 0.1))


THREADS = Threads()
"""Real ones."""
