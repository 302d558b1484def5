"""What did not answer is asked again after a pause, for longer each time."""

from isotherm.runtime.breaker import Breaker
from support.memory_topics import Clock


def test_pauses_grow_to_a_minute_and_end_with_an_answer():
    clock = Clock()
    breaker = Breaker(clock.monotonic_s)
    pauses = []
    for _ in range(6):
        assert breaker.left_s <= 0, "one question goes through"
        breaker.failed()
        pauses.append(breaker.left_s)
        clock.advance(breaker.left_s)

    assert pauses == [5, 10, 20, 40, 60, 60]
    breaker.failed()
    breaker.answered()
    assert breaker.left_s <= 0
    breaker.failed()
    assert breaker.left_s == 5


def test_questions_that_were_on_their_way_make_the_pause_no_longer():
    clock = Clock()
    breaker = Breaker(clock.monotonic_s)
    for _ in range(10):
        breaker.failed()

    assert breaker.left_s == 5
