"""Checks of this machine: the configuration, versions, limits, disks, and what a daemon has left here."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from isotherm.commands.doctor.checks import Check, Finding, unknown, well, wrong
from isotherm.commands.doctor.hidden import flat, shown
from isotherm.commands.doctor.subject import Subject
from isotherm.core.units import size_text
from isotherm.runtime import open_files
from isotherm.runtime.config import IsothermConfig
from isotherm.runtime.text import counted
from isotherm.store.folder import LEDGER

LEAST_OPEN_FILES = 4096
"""Enough for any number of tables (docs/operations.md)."""
LEAST_FREE = 1024**3
"""In the state folder: a ledger grows to 4 GiB over months, and the spool takes some files of the target size."""
LEAST_FREE_FOR_A_MOMENT = 256 * 1024**2
"""In the folder for temporary files, which the daemon itself does not use: it has its spool."""


def checks(subject: Subject) -> Iterator[Check]:
    """All of them."""
    yield Check("configuration", lambda: configuration(subject))
    yield Check("versions", versions)
    yield Check("open files", open_file_limit)
    yield Check("state folder", lambda: state_folder(subject.config), "mend state.path, or its rights")
    yield Check("temporary files", temporary_folder)
    yield Check(
        "ledger",
        lambda: ledger(subject.config),
        "restore it from a copy (docs/operations.md, Backup), or install the version that wrote it",
    )


def configuration(subject: Subject) -> Iterator[Finding]:
    """That it was read, and who may read its secrets."""
    keys = list(flat(shown(subject.config)))
    yield well(f"{subject.file} is good: {counted(len(keys), 'key')}, defaults and secrets included")
    if _is_open_to_all(subject.file) and _has_secrets(subject.config):
        yield wrong(
            f"everybody on this machine may read {subject.file}, which has, or may have, secrets in it",
            f"chmod 640 {subject.file}, or put them into a file of their own (properties_from)",
        )
    host = subject.config.http.host
    if host not in ("127.0.0.1", "::1", "localhost"):
        yield unknown(f"http.host {host}: whoever reaches the port reads names and numbers of tables")


def _is_open_to_all(file: Path) -> bool:
    return bool(file.stat().st_mode & stat.S_IROTH)


def _has_secrets(config: IsothermConfig) -> bool:
    return any(value == "***" or "***@" in value for _, value in flat(shown(config)))


def versions() -> Iterator[Finding]:
    """That the libraries are those that this program was tried with."""
    others = []
    for one in requires("isotherm") or ():
        pinned = re.match(r"([\w.-]+)(?:\[[^\]]*\])?==([\w.]+)$", one)
        if pinned and (installed := _installed(pinned[1])) != pinned[2]:
            others.append(f"{pinned[1]} {installed} (wanted: {pinned[2]})")
    if others:
        yield wrong(f"installed: {', '.join(others)}", "pip install isotherm in an environment of its own")
        return
    told = [f"{name} {_installed(name)}" for name in ("isotherm", "pyiceberg", "pyarrow", "confluent-kafka")]
    yield well(", ".join(told))


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "nothing"


def open_file_limit() -> Iterator[Finding]:
    """How many files the daemon could have open, started from here."""
    limit = open_files.raise_limit()
    said = f"{limit:,} may be open (from this shell; a unit or a container has its own limit)"
    if limit < LEAST_OPEN_FILES:
        yield wrong(said, f"LimitNOFILE= of the unit, or `ulimit -n {LEAST_OPEN_FILES}`")
    else:
        yield well(said)


def state_folder(config: IsothermConfig) -> Iterator[Finding]:
    """That it is there, may be written, and has room."""
    path = config.state.path
    there = next(one for one in (path, *path.parents) if one.exists())
    if not there.is_dir():
        yield wrong(f"{there} is no folder", "state.path is a folder of this daemon alone")
        return
    if not os.access(there, os.W_OK | os.X_OK):
        yield wrong(
            f"{there} may not be written by this user", "run as the daemon's user, or mend its rights"
        )
        return
    if there != path:
        yield unknown(f"{path} is not there yet: the daemon makes it")
    yield _room(there, LEAST_FREE, "give state.path a disk with more room")


def temporary_folder() -> Iterator[Finding]:
    """That what commands spool finds room."""
    yield _room(Path(tempfile.gettempdir()), LEAST_FREE_FOR_A_MOMENT, "TMPDIR names another folder")


def _room(folder: Path, least: int, remedy: str) -> Finding:
    free = shutil.disk_usage(folder).free
    said = f"{size_text(free)} free in {folder}"
    return well(said) if free >= least else wrong(f"{said}; {size_text(least)} are little", remedy)


def ledger(config: IsothermConfig) -> Iterator[Finding]:
    """That it can be read, by this version, and whether it holds deletions back."""
    from isotherm.store.ledger import Ledger
    from isotherm.store.ledger.schema import VERSIONS

    path = config.state.path / LEDGER
    if not path.exists():
        yield unknown(f"{path} is not there: no daemon has run with this state.path yet")
        return
    opened = Ledger(path, read_only=True)
    try:
        size = size_text(opened.size_bytes)
        operations = opened.operations(limit=1)
        said = f"{path}: version {len(VERSIONS)}, {size}, {'work recorded' if operations else 'nothing done yet'}"
        if why := opened.deletions_held():
            yield wrong(f"{said}; nothing is deleted: {why}", "`isotherm resume`, once you have looked")
        else:
            yield well(said)
    finally:
        opened.close()
