"""Which code of ours this process runs, and which lies on the disk: of what is started from there, and has to agree with it.

An upgrade may come while a daemon runs. The program in which rewrites run would be the new one then, and job and answer are
pickled by the places of their fields: a number would arrive as another one, of the same type.
"""

import os
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

    Raises:
        OSError: it cannot be read, as where the process may open no more files.
    """
    found = blake2b(digest_size=16)
    root = Path(isotherm.__path__[0])
    if not root.is_dir():
        return ""
    try:
        paths = _paths(root)
    except (FileNotFoundError, NotADirectoryError):  # a folder went while it was listed
        return CHANGING
    for path in paths:
        found.update(f"\0{path.relative_to(root)}\0".encode())
        with suppress(FileNotFoundError, NotADirectoryError):  # gone meanwhile: it is being upgraded
            found.update(path.read_bytes())
    return found.hexdigest() if paths else ""


def _paths(root: Path) -> list[Path]:
    """The files of code. Folders may be links, as where each version has a folder of its own."""

    def give_up(err: OSError) -> None:
        raise err

    found, seen = [], {os.path.realpath(root)}
    for folder, below, names in os.walk(root, onerror=give_up, followlinks=True):
        below[:] = [one for one in below if one != "__pycache__"]
        where = {one: os.path.realpath(Path(folder, one)) for one in below}
        below[:] = [one for one in below if where[one] not in seen]  # links may lead in a circle
        seen |= set(where.values())
        # What begins with a dot is an editor's, or another system's.
        found += [
            Path(folder, name)
            for name in names
            if Path(name).suffix in {".py", ".pyc"} and not name.startswith(".")
        ]
    return sorted(found)


def code_of_ours() -> str:
    """What this process runs, asked before the rest of it is imported.

    Raises:
        ImportError: nothing is found, as in an archive: an upgrade would go unnoticed, and nothing may run like that. Or files come
            and go just now: what was imported may be of two versions.
    """
    try:
        found = code_on_disk()
    except OSError as err:
        raise ImportError(f"the code of isotherm cannot be read: {err}") from err
    if found == CHANGING:
        raise ImportError(f"isotherm is being installed just now in {isotherm.__path__[0]}: start again")
    if not found:
        where = isotherm.__path__[0]
        raise ImportError(f"the code of isotherm does not lie as files in {where}: install it into a folder")
    return found


OUR_CODE = code_of_ours()
"""What this process runs: as it lay there when this was imported, which is before all else (`entry_point`)."""


def is_other_code() -> bool:
    """Whether other code lies there by now. Where it cannot be read, nothing is known of that."""
    try:
        return code_on_disk() != OUR_CODE
    except OSError:
        return False
