"""Files within reach of both engines: what is remote is fetched once, and each engine reads the copy on its own.

Both get a file by a descriptor that this process has open (`/proc/self/fd/7`). So no name of a file is taken for a
pattern or an address, and a copy, which has no name, is gone with the process, however that ends. A copy is as large as
its file, and there is one at a time.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator

from pyiceberg.io import FileIO

from isotherm.contract.paths import is_local, normalised

FOLDER = "/proc/self/fd/" if sys.platform == "linux" else "/dev/fd/"
"""Where the kernel shows the files that this process has open. Linux's own /dev/fd is a link to it."""
PIECE_BYTES = 8 * 1024 * 1024
"""What is fetched at a time: requests to an object store cost some thirty milliseconds each."""


def local_paths(locations: Iterable[str]) -> list[str]:
    """Where those of some files lie that need no copy: the names behind their descriptors."""
    return [os.path.realpath(normalised(location)) for location in locations if is_local(location)]


@contextlib.contextmanager
def nearby(io: FileIO, location: str) -> Iterator[str]:
    """A path under which the content of a file can be read, as long as the context lasts."""
    if is_local(location):
        with open(normalised(location), "rb") as file:  # noqa: PTH123 (a path has no descriptor)
            yield f"{FOLDER}{file.fileno()}"
        return
    with tempfile.TemporaryFile(prefix="isotherm-") as copy:
        with io.new_input(location).open() as stream:
            shutil.copyfileobj(stream, copy, PIECE_BYTES)
        copy.flush()
        yield f"{FOLDER}{copy.fileno()}"
