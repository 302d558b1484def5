"""Which code of ours lies on the disk: of what is started from there, and has to agree with what runs already.

An upgrade may come while a daemon runs. The program in which rewrites run would be the new one then, and job and answer are
pickled by the places of their fields: a number would arrive as another one, of the same type.
"""

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import isotherm

SHARED = ("contract", "core/model", "iceberg/compaction", "parquet")
"""The folders of what both sides must mean alike: the values, how they are told, and how a rewrite is made and proved.
Reading them takes a millisecond or two; of the whole package it would be ten, at each start."""


def code_on_disk() -> str:
    """What no other version of that code has."""
    found = blake2b(digest_size=16)
    root = Path(isotherm.__path__[0])
    for path in sorted(path for folder in SHARED for path in (root / folder).glob("*.py")):
        found.update(f"\0{path.relative_to(root)}\0".encode())
        with suppress(OSError):  # gone meanwhile: it is being upgraded
            found.update(path.read_bytes())
    return found.hexdigest()
