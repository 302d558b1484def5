"""Time zones by their IANA names, and the times that a clock in one of them shows.

Every answer depends on the zone's name and on the moment alone. The rules of a zone come from the machine's zone data,
or from the package `tzdata` where the machine has none. They are read once in a process, so a plan does not change
when an administrator updates them.
"""

import difflib
import zoneinfo
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache

from isotherm.core.units import DAY_MS

UTC_NAME = "UTC"

OF_THE_MACHINE = frozenset({"localtime", "Factory"})
"""Some machines have these among their zones. They name no place, and mean something else elsewhere."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def checked_zone(name: str) -> str:
    """A time zone that is known here.

    Raises:
        ValueError: it is not.
    """
    # UTC needs no data: a policy without `tz` is good on every machine.
    if name != UTC_NAME and (trouble := trouble_of_zone(name, _known())) is not None:
        raise ValueError(trouble)
    return name


def trouble_of_zone(name: str, known: AbstractSet[str]) -> str | None:
    """What is wrong with the name of a zone, with the remedy. Returns None where nothing is."""
    # A name is never used as a path before it is found in the list.
    if name in known:
        return None
    if not known:
        return "this machine has no time zone data; install the Python package `tzdata`, or write `UTC`"
    near = difflib.get_close_matches(name[:80], sorted(known), n=1, cutoff=0.6)
    remedy = f"did you mean `{near[0]}`?" if near else "use an IANA name, such as `Europe/Berlin` or `UTC`"
    return f"no time zone has this name; {remedy}"


@cache
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - OF_THE_MACHINE)


@cache
def zone(name: str) -> tzinfo:
    """The zone of a name that was checked."""
    return UTC if name == UTC_NAME else zoneinfo.ZoneInfo(name)


def moment(at_ms: int) -> datetime:
    """A time in milliseconds since 1970 as a moment, without its part of a second.

    Raises:
        OverflowError: it is not in one of the years 1 to 9999.
    """
    return _EPOCH + timedelta(seconds=at_ms // 1000)


def moment_text(at_ms: int, now_ms: int, name: str) -> str:
    """A moment for people, with its day unless it is near: `22:00 Europe/Berlin (21:00 UTC)`."""
    at = moment(at_ms)
    there = at.astimezone(zone(name))
    time, day = "%H:%M", "" if abs(at_ms - now_ms) < DAY_MS else "%Y-%m-%d "
    if name == UTC_NAME:
        return f"{at:{day}{time}} UTC"
    other_day = day if there.date() != at.date() else ""
    return f"{there:{day}{time}} {name} ({at:{other_day}{time}} UTC)"
