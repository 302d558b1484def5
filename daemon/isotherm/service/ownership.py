"""Whether a table is still this daemon's, and has been without a break since some work on it began.

Work belongs to the tenure under which it began: the time for which the group has given the table to this daemon
without a break. Where that has ended, the work is thrown away, also if the table has come back since. A commit would
still be safe then, as far as rows go. But another daemon has begun where we left off, perhaps with the very same files,
or has halted the table for what it found; one of two rewrites is thrown away in any case, and the younger one knows
more.
"""

from isotherm.service.ports import EventSource

MOVED = "the group gave the table to another daemon after the job began"


def has_still(events: EventSource, uuid: str, tenure: int | None) -> bool:
    """Whether this daemon has had the table without a break, as far as it knows."""
    return tenure is not None and events.tenure(uuid) == tenure


def why_moved(events: EventSource, uuid: str, tenure: int | None) -> str | None:
    """Why this daemon may not touch a table on which it began to work under that tenure, or None.

    The broker is asked, because what this process remembers may be a minute old and not know it. A pause after the
    answer does no harm: a commit replaces exactly the files that were read, or fails.
    """
    stranger = events.check_in()
    if stranger is not None:
        return stranger
    return None if has_still(events, uuid, tenure) else MOVED
