"""Which code of ours lies on the disk: of what is started from there, and has to agree with what runs already.

An upgrade may come while a daemon runs. The program in which rewrites run would be the new one then, and job and answer are
pickled by the places of their fields: a number would arrive as another one, of the same type.
"""

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import isotherm

CHANGING = "it is being changed"
"""No code's, while files come and go."""


def code_on_disk() -> str:
    """What no other version of the package has, or nothing where there is none.

    Of the whole package: a rewrite runs code of most of its folders. Reading them takes some 15 ms, at each start of a program
    whose imports take a hundred times as long. Where only compiled code is installed it is that.
    """
    found = blake2b(digest_size=16)
    root = Path(isotherm.__path__[0])
    try:
        paths = sorted(
            path
            for path in root.rglob("*.py*")
            if path.suffix in {".py", ".pyc"}
            and path.parent.name != "__pycache__"
            and not path.name.startswith(".")  # an editor's, or another system's
        )
    except OSError:  # a folder went while it was listed
        return CHANGING
    for path in paths:
        found.update(f"\0{path.relative_to(root)}\0".encode())
        with suppress(OSError):  # gone meanwhile: it is being upgraded
            found.update(path.read_bytes())
    return found.hexdigest() if paths else ""


def code_of_ours() -> str:
    """What this process runs, asked while it is imported.

    Raises:
        ImportError: nothing is found, as in an archive: an upgrade would go unnoticed, and nothing may run like that. Or files come
            and go just now: what was imported may be of two versions.
    """
    found = code_on_disk()
    if found == CHANGING:
        raise ImportError(f"isotherm is being installed just now in {isotherm.__path__[0]}: start again")
    if not found:
        where = isotherm.__path__[0]
        raise ImportError(f"the code of isotherm does not lie as files in {where}: install it into a folder")
    return found
