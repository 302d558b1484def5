"""Before the loop turns for the first time."""

import threading

import pytest

from isotherm.daemon import while_alive


class Ticks:
    """Health that counts how often it was told that the process is alive."""

    def __init__(self):
        self.told = threading.Semaphore(0)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "ticked_at_s":
            self.told.release()


def test_the_process_counts_as_alive_while_its_stores_are_opened():
    health = Ticks()

    def opening():
        return all(health.told.acquire(timeout=30) for _ in range(3))

    assert while_alive(health, opening, every_s=0.001)


def test_what_goes_wrong_while_they_are_opened_is_raised():
    def broken():
        raise OSError("no such disk")

    with pytest.raises(OSError, match="no such disk"):
        while_alive(Ticks(), broken)
