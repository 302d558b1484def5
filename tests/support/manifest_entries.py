"""The entries of a manifest, as our own reader has them."""

from typing import Any

from pyiceberg.manifest import ManifestEntry, ManifestFile

from isotherm.clients.manifests.reading import Manifest, entries


def read(io: Any, manifest: ManifestFile) -> list[ManifestEntry]:
    return list(entries(Manifest.read(io, manifest.manifest_path), manifest))
