"""Which files go together into new ones where they are copied as they are: they cannot be cut to any size.

A file that is written anew is cut at any row. What is copied fits or does not. So files of about the target size are put
together of those that happen to fit, and what fits nowhere is written anew. A footer grows with each file, too, and nobody
reads one of any size: each file has a share of what there may be. Pure functions over sizes and shares.
"""

from collections.abc import Iterable, Mapping
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


class Copyable(NamedTuple):
    """A file that may be copied."""

    size_bytes: int
    share: float
    """Of what the footer and the indexes of a file may have (`Footer.share`)."""


def packed(files: Mapping[int, Copyable], others_bytes: int, target_size_bytes: int) -> Packed:
    """Which of some files go together, the oldest first.

    What is written anew is one small file at the most, and the others have the target size. So the same files are not due
    again, and again, because there are two kinds of them.

    Args:
        files: that may be copied, by their numbers.
        others_bytes: of all that is written anew in any case.
        target_size_bytes: of a new file.
    """
    anew = files_for(_bytes(files, files) + others_bytes, target_size_bytes)
    if anew == 1 and not others_bytes and 0 < len(files) <= MOST_FILES and _share(files, files) <= 1:
        return Packed([list(files)], [])
    together: list[list[int]] = []
    left = dict(files)
    rest: list[int] = []
    while left:
        group = _filled(left, target_size_bytes)
        if LEAST <= _bytes(left, group) / target_size_bytes <= MOST and _share(left, group) <= 1:
            together.append(group)
        else:
            group = [next(iter(left))]
            rest += group
        for number in group:
            del left[number]
    while (
        together
        and len(together) + _files(files, rest, others_bytes, target_size_bytes) > anew + anew // MORE_FILES
    ):
        rest += together.pop()
    return Packed(together, sorted(rest))


def _filled(files: Mapping[int, Copyable], target_size_bytes: int) -> list[int]:
    """The oldest file, and the largest ones that have room beside it; in their order."""
    oldest = next(iter(files))
    chosen, room, left = (
        [oldest],
        MOST * target_size_bytes - files[oldest].size_bytes,
        1 - files[oldest].share,
    )
    for number in sorted(files, key=lambda one: (-files[one].size_bytes, one)):
        if room <= (MOST - LEAST) * target_size_bytes or len(chosen) == MOST_FILES:
            break
        if number != oldest and files[number].size_bytes <= room and files[number].share <= left:
            chosen.append(number)
            room -= files[number].size_bytes
            left -= files[number].share
    return sorted(chosen)


def _files(files: Mapping[int, Copyable], rest: list[int], others_bytes: int, target_size_bytes: int) -> int:
    """How many files are made of what is written anew."""
    rest_bytes = others_bytes + _bytes(files, rest)
    return files_for(rest_bytes, target_size_bytes) if rest_bytes else 0


def _bytes(files: Mapping[int, Copyable], numbers: Iterable[int]) -> int:
    return sum(files[number].size_bytes for number in numbers)


def _share(files: Mapping[int, Copyable], numbers: Iterable[int]) -> float:
    return sum(files[number].share for number in numbers)
