"""The writers of a table, as far as they speak of themselves."""

from dataclasses import dataclass

from isotherm.contract.events import OpenWindow
from isotherm.contract.summary import pipeline_of

NOBODY = "(unannounced)"
"""The writer of what no event has brought: nobody knows who it is, or what else it means to write."""
UNHEARD = "(not heard yet) "
"""Before the name of a pipeline of Isotherm's ingest that a commit names: its event is on its way, as a rule."""


def unannounced(token: str) -> str:
    """The writer of a commit that no event has brought, by whose place in its source it keeps (`token_of`)."""
    pipeline = pipeline_of(token)
    return UNHEARD + pipeline if pipeline else NOBODY


@dataclass(frozen=True, slots=True)
class Word:
    """The newest thing that a writer said of itself: its open window, and when."""

    writer: str
    at_ms: int
    window: OpenWindow
    announces: bool = False
    """Whether it says in intents what it is about to touch."""
    grants: bool = False
    """Whether it grants windows between two of its commits."""
    is_unreadable: bool = False
    """Whether what was kept of it is damaged: until it speaks again, it may write anything."""
