"""How many files are enough for a job, as people write it: `20` or `learned`."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema

from isotherm.core.policy.cold_after import LEARNED
from isotherm.core.units import MAX_COUNT

AS_A_RULE: Final = 20
LATE: Final = 6
"""What `learned` means of small files: as a rule, and of rows that came late, or to which nobody comes back
(docs/designs/verdicts.md)."""

DELETES_AS_A_RULE: Final = 200
DELETES_ALONE: Final = 20
DELETES_LEFT: Final = 6
"""What it means of position-delete files: as a rule, where they came without rows, for more than one data file each, and
where nobody comes back."""


def _count(least: int, example: int) -> tuple[BeforeValidator, WithJsonSchema]:
    integer = {"type": "integer", "minimum": least, "maximum": MAX_COUNT}
    return (
        BeforeValidator(_parse(least, example)),
        WithJsonSchema({"anyOf": [{"const": LEARNED}, integer]}),
    )


def _parse(least: int, example: int) -> Callable[[Any], int | str]:
    def parse(value: Any) -> int | str:
        """`20` or `learned`.

        Raises:
            ValueError: it is none of these.
        """
        if value == LEARNED:
            return LEARNED
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_COUNT:
            raise ValueError(f"expected `{LEARNED}`, or a whole number from {least} on such as `{example}`")
        return value

    return parse


MinFiles = Annotated[int | Literal["learned"], *_count(2, AS_A_RULE)]
"""So many small files (one alone is no work), or what is learned."""

MaxPositionDeletes = Annotated[int | Literal["learned"], *_count(1, DELETES_AS_A_RULE)]
"""So many position-delete files, or what is learned."""


def enough_files(min_files: int | str, *, is_late: bool) -> int:
    """So many small files are enough for a job.

    Args:
        min_files: what the policy says.
        is_late: whether they came late, to a partition that was compacted, or nobody comes back.
    """
    if isinstance(min_files, int):
        return min_files
    return LATE if is_late else AS_A_RULE


def enough_deletes(
    max_position_deletes: int | str, *, are_alone: bool = False, are_left: bool = False
) -> int:
    """So many position-delete files are enough for a job.

    Args:
        max_position_deletes: what the policy says.
        are_alone: whether they came without rows, are more than the data files, and are few once they are merged.
        are_left: whether nobody comes back, and they are more than the large files, and very few once they are merged.
    """
    if isinstance(max_position_deletes, int):
        return max_position_deletes
    if are_left:
        return DELETES_LEFT
    return DELETES_ALONE if are_alone else DELETES_AS_A_RULE
