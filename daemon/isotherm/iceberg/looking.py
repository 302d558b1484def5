"""Looks which table each of some names is, and where it lies: beside the loop, one name after another.

One name that is slow keeps the others waiting in this look alone: nothing that is found here says of the catalog as a
whole whether it answers.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence

from isotherm.iceberg.threads import IsStopped
from isotherm.service.ports import Lies, Looked, Refused, StoreAway, TableMissing, Unavailable, Unreadable

TRIES = 3
"""A name that is not answered for is asked for so often, the last times behind all others."""
SILENT_AT_ONCE = 5
"""So many in a row without an answer, and nobody answers: the others are not asked for."""


def look(lies: Callable[[str], Lies], names: Sequence[str], is_stopped: IsStopped) -> Looked:
    """What some names are.

    A store that does not answer may be none of ours: after some tries its table counts as one that cannot be read.

    Args:
        lies: asks for one name. Raises TableMissing, Unavailable.
        names: those to look at.
        is_stopped: asked before each.
    """
    found: dict[str, Lies] = {}
    missing: list[str] = []
    unread: dict[str, str] = {}
    silent: dict[str, str] = {}
    waiting, tries, in_a_row = deque(names), Counter[str](), 0
    while waiting and in_a_row < SILENT_AT_ONCE and not is_stopped():
        name = waiting.popleft()
        tries[name] += 1
        try:
            found[name] = lies(name)
        except TableMissing:
            missing.append(name)
        except (Refused, Unreadable) as err:
            unread[name] = str(err)
        except Unavailable as err:
            is_store = isinstance(err, StoreAway)
            in_a_row += not is_store
            if tries[name] < TRIES:
                waiting.append(name)
            else:
                (unread if is_store else silent)[name] = str(err)
            continue
        except Exception as err:  # noqa: BLE001 (a mistake of ours, about a table that nobody asked us to read)
            unread[name] = f"{type(err).__name__}: {err}"
        in_a_row = 0
    return Looked(found, missing, unread, silent | dict.fromkeys(waiting, "the catalog did not answer"))
