"""Manifests of a list, fetched ahead: a store takes tens of milliseconds for each, and a stream leaves hundreds."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile

from isotherm.clients.manifests.reading import Manifest
from isotherm.iceberg.threads import THREADS, Threads

AT_ONCE = 8
SMALL_BYTES = 1024**2
"""Twice as many as are fetched at once may wait to be taken, so that larger ones are fetched when it is their turn."""


def fetched(io: FileIO, manifests: Sequence[ManifestFile], threads: Threads = THREADS) -> Iterator[Manifest]:
    """Some manifests, in their order, as whoever takes them takes the one before.

    Raises:
        OSError: one of them is not there, or its store does not answer; when it is its turn.
        UnreadableError: it is damaged.
    """

    def read(manifest: ManifestFile) -> Manifest:
        return Manifest.read(io, manifest.manifest_path, manifest.manifest_length)

    for is_small, some in groupby(manifests, lambda one: one.manifest_length <= SMALL_BYTES):
        group = list(some)
        if is_small and len(group) > 1:
            yield from threads.each(read, group, AT_ONCE)
        else:
            yield from map(read, group)
