"""When the graces of files end: together, because each end costs a proof."""

from zlib import crc32


def together_ms(uuid: str, now_ms: int, grace_ms: int) -> int:
    """When files of a table may go whose grace begins now: at its end, together with those of about that time.

    The proof before a deletion costs what stays in the table, however few the files are. So there is one for each
    grace, not for each expiry, and a file waits for one to two graces. Proofs are made one after another, so each table
    has a time of its own in the grace: else those of all tables would come due together, at midnight.
    """
    if grace_ms <= 0:
        return now_ms
    shift_ms = crc32(uuid.encode()) * grace_ms >> 32
    return -(-(now_ms + grace_ms - shift_ms) // grace_ms) * grace_ms + shift_ms
