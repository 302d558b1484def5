"""Who maintains the tables of a run: Isotherm, or what it is held against with the same seed."""

from enum import StrEnum


class Maintainer(StrEnum):
    """Whom `isotherm demo --maintained-by` may name."""

    ISOTHERM = "isotherm"
    """The daemon."""
    TIMER = "timer"
    """Iceberg's own procedures for each whole table, again and again (`timer`)."""
    NOBODY = "nobody"
