"""Work beside the loop that asks it before it does what cannot be undone."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from math import inf
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

from isotherm.iceberg.stopping import IsStopped, never
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.hanging import Hanging, NotBegunError

Result = TypeVar("Result")
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class NobodyAnswersError(Exception):
    """What is asked here gets no answer any more: the work was given up."""


@dataclass(frozen=True, slots=True)
class Asks(Generic[Question, Answer]):
    """By what work beside the loop asks the loop, and is heard by it."""

    answer: Callable[[Question], Answer]
    is_stopped: IsStopped = never
    """Whether it was given up. Who asks between two long steps is not."""

    def __call__(self, question: Question) -> Answer:
        """The loop's answer.

        Raises:
            NobodyAnswersError: the work was given up.
        """
        return self.answer(question)


MOMENT_S = 0.2
"""For which each further turn of the loop waits for work that takes long: its next question is answered soon."""


class Asking(Generic[Question, Answer, Result]):
    """One piece of work beside the loop that asks before it does what cannot be undone.

    The loop answers in its own thread, between its own steps, so an answer rests on nothing that changes meanwhile. It
    waits for the work for `wait_s`, because an answer is worth most at once, and then for a moment in each turn. Work
    that neither asks nor ends for as long as the limit, nor says that it goes on (`Asks.is_stopped`), is given up: whatever
    it asks from then on is not answered.
    """

    def __init__(self, limit_s: float, wait_s: float, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._hanging = Hanging(clock_s)
        self._limit_s = limit_s
        self._wait_s = wait_s
        self._clock_s = clock_s
        self._running: _Asker[Question, Answer, Result] | None = None

    def start(self, work: Callable[[Asks[Question, Answer]], Result]) -> None:
        """Begin some work, which is given what it asks by. There is one at a time."""
        if self._running is not None:
            raise RuntimeError("what was begun before is not over")
        self._running = asker = _Asker[Question, Answer, Result](work, self._clock_s)
        try:
            self._hanging.begin(asker.end)
            Thread(target=asker.run, name="isotherm-asking", daemon=True).start()
        except (NotBegunError, RuntimeError) as err:  # the latter: the system gives no thread now
            asker.end.set_exception(NotBegunError(str(err)))
            asker.happened.put(None)

    def go_on(
        self, answer: Callable[[Question], Answer], *, first_s: float = inf
    ) -> Result | BaseException | None:
        """Answer what is asked, for a while. Returns the result, or the error, once it is over; else None.

        `first_s`: the while at most, as long as it has asked no more than once. Who asks again has lost a race, and would lose
        the next one too if it waited for a turn of the loop.
        """
        asker = self._running
        if asker is None:
            return None
        until_s = self._until_s(asker, first_s)
        while True:
            try:
                happened = asker.happened.get(timeout=max(until_s - self._clock_s(), 0))
            except Empty:
                if self._clock_s() - asker.heard_s <= self._limit_s:
                    return None
                self.close()
                return TimeoutError(f"not done after {self._limit_s:.0f}s")
            asker.heard_s = self._clock_s()
            if happened is not None:
                asker.reply(happened, answer)
                until_s = max(until_s, self._until_s(asker, first_s))
                continue
            self._running = None
            return asker.end.exception() or asker.end.result()

    def _until_s(self, asker: "_Asker[Question, Answer, Result]", first_s: float) -> float:
        now_s = self._clock_s()
        wait_s = max(asker.began_s + self._wait_s - now_s, MOMENT_S)
        return now_s + (wait_s if asker.asked > 1 else min(wait_s, first_s))

    def close(self) -> None:
        """Answer nothing any more: what was not allowed before is not done."""
        if self._running is not None:
            self._running.give_up()
            self._hanging.give_up(self._running.end)
            self._running = None


class _Asker(Generic[Question, Answer, Result]):
    """Some work in a thread, and what it asks."""

    def __init__(
        self, work: Callable[[Asks[Question, Answer]], Result], clock_s: Callable[[], float]
    ) -> None:
        self._work = work
        self._clock_s = clock_s
        self._lock = Lock()
        self._asked: Future[Answer] | None = None
        self._is_given_up = False
        self.began_s = self.heard_s = clock_s()
        self.asked = 0
        """So many questions were answered."""
        self.happened: SimpleQueue[tuple[Question] | None] = SimpleQueue()
        """Questions, and None at the end."""
        self.end: Future[Result] = Future()

    def run(self) -> None:
        """Do the work, in its own thread."""
        try:
            self.end.set_result(self._work(Asks(self._ask, self._is_stopped)))
        except BaseException as err:  # noqa: BLE001 (it is given to whoever waits)
            self.end.set_exception(err)
        self.happened.put(None)

    def _is_stopped(self) -> bool:
        self.heard_s = self._clock_s()
        return self._is_given_up

    def _ask(self, question: Question) -> Answer:
        with self._lock:
            if self._is_given_up:
                raise NobodyAnswersError("nobody waits for it any more")
            asked = self._asked = Future[Answer]()
        self.happened.put((question,))
        return asked.result()

    def reply(self, happened: tuple[Question], answer: Callable[[Question], Answer]) -> None:
        """Answer a question, in the thread of the loop."""
        if self._asked is None:
            raise RuntimeError("nothing was asked")
        asked, self._asked = self._asked, None
        self.asked += 1
        try:
            asked.set_result(answer(*happened))
        except BaseException as err:
            asked.set_exception(err)
            if not isinstance(err, Exception):
                raise

    def give_up(self) -> None:
        """Have every question fail from now on, and the one that waits."""
        with self._lock:
            self._is_given_up = True
            asked, self._asked = self._asked, None
        if asked is not None:
            asked.set_exception(NobodyAnswersError("nobody waits for it any more"))
