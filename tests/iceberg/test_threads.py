"""Work beside the loop goes on as long as it gets on, and is given up where it does not."""

from threading import Barrier, Event

from isotherm.iceberg.threads import Beside, IsStopped

LIMIT_S = 10.0


def test_work_that_gets_on_takes_as_long_as_it_takes() -> None:
    now_s, step = [0.0], Barrier(2, timeout=30)
    beside: Beside[str] = Beside(LIMIT_S, lambda: now_s[0])

    def work(is_stopped: IsStopped) -> str:
        for _ in range(5):
            step.wait()
            is_stopped()
            step.wait()
        return "done"

    beside.start("a proof", work)
    ended: list[object] = []
    for _ in range(5):
        now_s[0] += LIMIT_S - 1
        step.wait()
        step.wait()
        ended += beside.ended()
    beside.wait(30)

    assert [*ended, *beside.ended()] == [("a proof", "done")]


def test_work_that_hangs_in_one_step_is_given_up_and_told_to_stop() -> None:
    now_s, asked, go_on, over = [0.0], Event(), Event(), Event()
    beside: Beside[str] = Beside(LIMIT_S, lambda: now_s[0])
    stopped = []

    def work(is_stopped: IsStopped) -> str:
        stopped.append(is_stopped())
        asked.set()
        go_on.wait(30)
        stopped.append(is_stopped())
        over.set()
        return "too late"

    beside.start("a proof", work)
    assert asked.wait(30)
    now_s[0] += LIMIT_S + 1
    ((name, error),) = beside.ended()
    go_on.set()

    assert (name, type(error)) == ("a proof", TimeoutError)
    assert over.wait(30)
    assert stopped == [False, True]
    assert not list(beside.ended())
