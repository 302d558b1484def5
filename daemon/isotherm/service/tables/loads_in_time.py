"""A table is looked for under several names: where it did not come in time, the loop does not wait for it again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from isotherm.service.ports import LoadedTable, TooLong

Load = Callable[[str], LoadedTable]


@contextmanager
def loaded_in_time(load: Load) -> Iterator[Load]:
    """Gives a load that is not done again after one that took too long.

    Raises:
        TooLong: at the end, so that whoever takes that for no answer, and goes on, hides it from nobody.
    """
    too_long: list[TooLong] = []

    def once(name: str) -> LoadedTable:
        if too_long:
            raise too_long[0]
        try:
            return load(name)
        except TooLong as err:
            too_long.append(err)
            raise

    yield once
    if too_long:
        raise too_long[0]
