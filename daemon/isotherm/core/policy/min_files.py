"""How many small files are enough for a job, as people write it: `20` or `learned`."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema

from isotherm.core.policy.cold_after import LEARNED
from isotherm.core.units import MAX_COUNT

LEAST: Final = 2
"""One file alone is no work."""
AS_A_RULE: Final = 20
LATE: Final = 6
"""What `learned` means: as a rule, and of rows that came late (docs/designs/verdicts.md)."""


def parse_min_files(value: Any) -> int | str:
    """`20` or `learned`.

    Raises:
        ValueError: it is none of these.
    """
    if value == LEARNED:
        return LEARNED
    if not isinstance(value, int) or isinstance(value, bool) or not LEAST <= value <= MAX_COUNT:
        raise ValueError(f"expected `{LEARNED}`, or a whole number from {LEAST} on such as `{AS_A_RULE}`")
    return value


MinFiles = Annotated[
    int | Literal["learned"],
    BeforeValidator(parse_min_files),
    WithJsonSchema(
        {"anyOf": [{"const": LEARNED}, {"type": "integer", "minimum": LEAST, "maximum": MAX_COUNT}]}
    ),
]
"""So many small files, or what is learned."""


def enough(min_files: int | str, *, is_late: bool) -> int:
    """So many small files are enough for a job.

    Args:
        min_files: what the policy says.
        is_late: whether they came late, to a partition that was compacted.
    """
    if isinstance(min_files, int):
        return min_files
    return LATE if is_late else AS_A_RULE
