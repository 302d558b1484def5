"""The quarantine of a table's orphans: where a file lies that was moved there, and where it was before.

It is a folder beside the table's `data/` and `metadata/`, under the same location. Its name is hidden, so no search takes
it for the table's: neither Spark's removal of orphans, nor Hive's and Hadoop's listings, nor ours. In it each search that
found something has a folder, named by its job, and in that the files have the paths that they had under the location. So
a listing alone says where everything was, and a name that comes twice is no trouble.

Whether a file goes there, and from there, is decided in `deletion`.
"""

from collections.abc import Collection

FOLDER = "_isotherm_quarantine"
PARTS = ("data", "metadata")
"""The folders of a table from which files are moved."""
LONGEST_KEY_BYTES = 1024
"""Of S3, GCS and Azure, without the bucket."""


def folder_in(home: str) -> str:
    """The folder of a table's quarantine, with a slash at its end.

    Args:
        home: the location that the table was first seen with.
    """
    return f"{home.rstrip('/')}/{FOLDER}/"


def place_for(path: str, home: str, job_id: str) -> str | None:
    """Where an orphan is moved to, or None if it lies in none of the table's two folders."""
    top = home.rstrip("/") + "/"
    below = path.removeprefix(top)
    if below == path or not _is_of_a_table(below):
        return None
    return f"{folder_in(home)}{job_id}/{below}"


def origin_of(place: str, home: str) -> str | None:
    """Where a file of the quarantine was before, or None if nothing of ours could have moved it there."""
    top = folder_in(home)
    job_id, _, below = place.removeprefix(top).partition("/")
    if not place.startswith(top) or not job_id or not _is_of_a_table(below):
        return None
    return f"{home.rstrip('/')}/{below}"


def is_too_long(place: str) -> bool:
    """Whether an object store has no file of such a name."""
    scheme, is_remote, rest = place.partition("://")
    key = rest.partition("/")[2]
    return (
        bool(is_remote) and scheme.lower() not in {"file", "hdfs"} and len(key.encode()) > LONGEST_KEY_BYTES
    )


def fits(size_bytes: int, sizes: Collection[int]) -> bool:
    """Whether a file may be the one that a table names with one of these sizes; where none is known, it may."""
    return not sizes or size_bytes in sizes


def _is_of_a_table(below: str) -> bool:
    part, _, name = below.partition("/")
    return part in PARTS and bool(name)
