"""Locations that are wanted for their names alone, whatever their folders are called."""

from collections.abc import Container
from dataclasses import dataclass

from isotherm.core.deletion import name_of


@dataclass(frozen=True, slots=True)
class ByName:
    """Locations of whose names some are wanted."""

    names: Container[str]

    def __contains__(self, location: object) -> bool:
        return name_of(str(location)) in self.names
