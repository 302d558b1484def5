"""Looks which table each of some names is, and where it lies: beside the loop, one name after another.

One name that is slow keeps the others waiting in this look alone: nothing that is found here says of the catalog as a
whole whether it answers.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence

from isotherm.iceberg.errors import says_nothing_of_it, wanted_pause_s
from isotherm.iceberg.threads import IsStopped
from isotherm.service.ports import Lies, Looked, Refused, StoreAway, TableMissing, Unavailable, Unreadable

TRIES = 3
"""A name that is not answered for is asked for so often, the last times behind all others."""
SILENT_AT_ONCE = 5
"""So many in a row without an answer, and nobody answers: the others are not asked for."""


def look(
    lies: Callable[[str], Lies],
    is_listed: Callable[[str], bool],
    names: Sequence[str],
    is_stopped: IsStopped,
) -> Looked:
    """What some names are.

    Args:
        lies: asks for one name. Raises TableMissing, Unavailable.
        is_listed: whether the catalog still lists a name that it has no table for. Raises TableMissing, Unavailable.
        names: those to look at.
        is_stopped: asked before each.
    """
    found: dict[str, Lies] = {}
    missing: list[str] = []
    gone: list[str] = []
    unread: dict[str, str] = {}
    silent: dict[str, str] = {}
    waiting, tries, in_a_row, pause_s = deque(names), Counter[str](), 0, 0.0
    while waiting and not pause_s and in_a_row < SILENT_AT_ONCE and not is_stopped():
        name = waiting.popleft()
        tries[name] += 1
        try:
            found[name] = lies(name)
        except TableMissing:
            (gone if _is_gone(is_listed, name) else missing).append(name)
        except Unavailable as err:
            if pause_s := wanted_pause_s(err):
                waiting.appendleft(name)
                tries[name] -= 1
                continue
            if isinstance(err, Refused | Unreadable) and not says_nothing_of_it(err):
                unread[name] = str(err)
            else:
                in_a_row += not isinstance(err, StoreAway)
                if tries[name] < TRIES:
                    waiting.append(name)
                else:
                    silent[name] = str(err)
                continue
        except Exception as err:  # noqa: BLE001 (a mistake of ours, about a table that nobody asked us to read)
            unread[name] = f"{type(err).__name__}: {err}"
        in_a_row = 0
    # Those that were asked for, and have tries left, were silent too.
    silent |= {name: "the catalog did not answer" for name in waiting if tries[name]}
    unasked = [name for name in waiting if not tries[name]]
    return Looked(found, gone, missing, unread, silent, unasked, pause_s)


def _is_gone(is_listed: Callable[[str], bool], name: str) -> bool:
    try:
        return not is_listed(name)
    except TableMissing:  # with its namespace
        return True
    except Unavailable:
        return False
