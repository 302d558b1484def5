"""What one job takes at the most, and what it is assumed to take."""

JOB_OVERHEAD_MS = 10_000
"""What every job is assumed to take beside its bytes: a process, a commit."""

JOB_BYTES_PER_S = 20 * 1024**2
"""What a job is assumed to take: reading, writing, reading back and committing, on a modest machine."""

MAX_JOB_BYTES = 10 * 1024**3
"""What one job reads at most: some nine minutes. What is larger is done in parts."""

MAX_JOB_FILES = 10_000
"""What one job rewrites at most, and what it merges at most: each file costs some ten milliseconds, in both engines."""

MAX_OUTPUTS = 1000
"""Partitions into which one job writes at most: each gets a file of its own, so a month in hours is enough."""

MAX_JOB_OPENS = 10 * MAX_JOB_FILES
"""Files of a partition in which a job may look for the keys of equality deletes: some twenty minutes, where small files are
fetched ahead."""

MERGED_FILE_BYTES = 64 * 1024**2
"""Size of the files into which delete files are merged: Iceberg's own `write.delete.target-file-size-bytes`, whatever the
table says. Of a small one there would be as many files as before."""

KEY_BYTES = 16
"""What is read of a row of which the key alone is wanted: a number, or a text that a codec has made small."""


def keys_bytes(rows: int, size_bytes: int) -> int:
    """What is assumed to be read of files of so many rows and bytes in all, where only keys are looked for in them."""
    return min(size_bytes, rows * KEY_BYTES)


def job_ms(size_bytes: int) -> int:
    """What a job that reads so much is assumed to take, in milliseconds."""
    return JOB_OVERHEAD_MS + size_bytes * 1000 // JOB_BYTES_PER_S
