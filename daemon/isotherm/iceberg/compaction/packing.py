"""Which files go together into new ones where they are copied as they are: they cannot be cut to any size.

A file that is written anew is cut at any row. What is copied fits or does not. So files of about the target size are put
together of those that happen to fit, and what fits nowhere is written anew. Pure functions over sizes.
"""

from collections.abc import Mapping
from typing import NamedTuple

from isotherm.parquet.output import files_for

LEAST, MOST = 0.9, 1.1
"""A file of so many targets has the target size."""
MOST_FILES = 256
"""Go into one: all of them are open at once."""
MORE_FILES = 10
"""There may be one file more than if all was written anew for each ten of these: they have nine tenths of the size."""


class Packed(NamedTuple):
    """How some files are divided, by their numbers."""

    together: list[list[int]]
    """Of each of these one file is made."""
    rest: list[int]
    """These are written anew."""


def packed(sizes: Mapping[int, int], others_bytes: int, target_size_bytes: int) -> Packed:
    """Which of some files go together, the oldest first.

    What is written anew is one small file at the most, and the others have the target size. So the same files are not due
    again, and again, because there are two kinds of them.

    Args:
        sizes: of each file that may be copied, by its number.
        others_bytes: of all that is written anew in any case.
        target_size_bytes: of a new file.
    """
    all_bytes = sum(sizes.values()) + others_bytes
    anew = files_for(all_bytes, target_size_bytes)
    if anew == 1 and not others_bytes and 0 < len(sizes) <= MOST_FILES:
        return Packed([list(sizes)], [])
    together: list[list[int]] = []
    left = dict(sizes)
    rest: list[int] = []
    while left:
        group = _filled(left, target_size_bytes)
        if LEAST <= sum(left[number] for number in group) / target_size_bytes <= MOST:
            together.append(group)
        else:
            group = [next(iter(left))]
            rest += group
        for number in group:
            del left[number]
    while (
        together
        and len(together) + _files(sizes, rest, others_bytes, target_size_bytes) > anew + anew // MORE_FILES
    ):
        rest += together.pop()
    return Packed(together, sorted(rest))


def _filled(sizes: Mapping[int, int], target_size_bytes: int) -> list[int]:
    """The oldest file, and the largest ones that have room beside it; in their order."""
    oldest = next(iter(sizes))
    chosen, room = [oldest], MOST * target_size_bytes - sizes[oldest]
    for number in sorted(sizes, key=lambda one: (-sizes[one], one)):
        if room <= (MOST - LEAST) * target_size_bytes or len(chosen) == MOST_FILES:
            break
        if number != oldest and sizes[number] <= room:
            chosen.append(number)
            room -= sizes[number]
    return sorted(chosen)


def _files(sizes: Mapping[int, int], rest: list[int], others_bytes: int, target_size_bytes: int) -> int:
    """How many files are made of what is written anew."""
    rest_bytes = others_bytes + sum(sizes[number] for number in rest)
    return files_for(rest_bytes, target_size_bytes) if rest_bytes else 0
