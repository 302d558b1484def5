"""The writers of a table, as far as they speak of themselves."""

from dataclasses import dataclass

from isotherm.contract.events import OpenWindow


@dataclass(frozen=True, slots=True)
class Word:
    """The newest thing that a writer said of itself: its open window, and when."""

    writer: str
    at_ms: int
    window: OpenWindow
    announces: bool = False
    """Whether it says in intents what it is about to touch."""
    is_unreadable: bool = False
    """Whether what was kept of it is damaged: until it speaks again, it may write anything."""
