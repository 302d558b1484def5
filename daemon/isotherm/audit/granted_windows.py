"""Whether a commit of ours was made in a window that its writers had granted, as the control topic and the history show it.

Times are the broker's. That nobody wrote in the window is told by the history alone: between the head that a writer named
in its grant and our commit there is nobody else's.
"""

from collections.abc import Sequence

from isotherm.audit.announcements import FORGOTTEN, TOPIC_AWAY
from isotherm.audit.evidence import Commit, Evidence, SaidOfWindow, Touch
from isotherm.audit.intents import MARGIN_MS, open_meanwhile
from isotherm.contract.events import WindowClosed, WindowGranted, WindowRequested


def why_not_granted(
    history: Evidence, commit: Commit, touch: Touch, before: Sequence[Commit]
) -> tuple[str | None, str | None]:
    """Why no window covers a commit of ours in a hot partition, and, where it does as far as we see, why that is not known.

    Args:
        history: all evidence.
        commit: ours; it names its windows.
        touch: what it did to the partition that was hot.
        before: its ancestors, newest first.
    """
    complaint = doubt = None
    for window_id in commit.window_ids:
        said = [one for one in history.windows if one.event.window_id == window_id]
        complaint, doubt = _against(history, said, commit, touch, before)
        if complaint is None:
            break
    if complaint is not None:
        if not history.topic_is_known:
            return None, TOPIC_AWAY
        since_ms = history.announced_since_ms
        if since_ms is not None and commit.committed_at_ms < since_ms:
            return None, FORGOTTEN
    return complaint, doubt


def _against(
    history: Evidence, said: Sequence[SaidOfWindow], commit: Commit, touch: Touch, before: Sequence[Commit]
) -> tuple[str | None, str | None]:
    outside = _not_asked(said, touch) or _when(said, commit.committed_at_ms)
    if outside is not None:
        return outside, None
    if (complaint := open_meanwhile(history, touch.partition, commit)) is not None:
        return complaint, None
    heads = {one.event.snapshot_id for one in _grants(said) if isinstance(one.event, WindowGranted)}
    for other in before:
        if other.snapshot_id in heads:
            return None, None
        if other.is_write:
            return f"snapshot {other.snapshot_id} was written in its window", None
    return None, "the snapshots since its window was granted have expired"


def _not_asked(said: Sequence[SaidOfWindow], touch: Touch) -> str | None:
    """Why there was no such window of the partition, or None where there was."""
    requests = [one.event for one in said if isinstance(one.event, WindowRequested)]
    if not requests or not _grants(said):
        return "no window that it names was asked for and granted"
    if all(one.partitions is not None and touch.partition not in one.partitions for one in requests):
        return "the window that it names was asked for other partitions"
    return None


def _grants(said: Sequence[SaidOfWindow]) -> list[SaidOfWindow]:
    """What each writer has granted: its first word after the request.

    A message may come twice, and anybody may write one: what is said later takes nothing back.
    """
    asked_ms = min((one.at_ms for one in said if isinstance(one.event, WindowRequested)), default=None)
    found: dict[str, SaidOfWindow] = {}
    for one in said:
        if (
            isinstance(one.event, WindowGranted)
            and asked_ms is not None
            and one.at_ms >= asked_ms - MARGIN_MS
        ):
            found.setdefault(one.event.writer, one)
    return list(found.values())


def _when(said: Sequence[SaidOfWindow], at_ms: int) -> str | None:
    """Why a window was not open at a time, or None where it was."""
    asked_ms = min((one.event.length_ms for one in said if isinstance(one.event, WindowRequested)), default=0)
    for one in (*_grants(said), *(one for one in said if isinstance(one.event, WindowClosed))):
        match one.event:
            case WindowGranted() if at_ms < one.at_ms - MARGIN_MS:
                return f"its window was granted {one.at_ms - at_ms} ms after it"
            # No more than was asked for.
            case WindowGranted() if (
                late_ms := at_ms - one.at_ms - min(one.event.length_ms, asked_ms)
            ) > MARGIN_MS:
                return f"its window was over {late_ms} ms before"
            case WindowClosed() if at_ms - one.at_ms > MARGIN_MS:
                return f"its window was closed {at_ms - one.at_ms} ms before"
            case _:
                pass
    return None
