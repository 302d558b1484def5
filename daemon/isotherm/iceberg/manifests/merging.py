"""Which manifests a commit makes one of, as Iceberg's own merging append does.

A stream that appends fast leaves a manifest for each commit, and each reader opens all of them. A commit that swaps
files writes manifests anyway, so it merges small ones along, as the table's properties say.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import TableProperties
from pyiceberg.utils.properties import property_as_int

from isotherm.contract.properties import says


@dataclass(frozen=True, slots=True)
class Limits:
    """How many manifests are read at most, how much of them, and how many entries."""

    most: int
    most_bytes: int
    most_entries: int

    def hold(self, group: Sequence[ManifestFile]) -> bool:
        """Whether so many may be read."""
        left = self.without(group)
        return min(left.most, left.most_bytes, left.most_entries) >= 0

    def without(self, group: Sequence[ManifestFile]) -> Self:
        """What is left of them once some were read."""
        size_bytes = sum(manifest.manifest_length for manifest in group)
        entries = sum(map(_entries, group))
        return type(self)(self.most - len(group), self.most_bytes - size_bytes, self.most_entries - entries)


LIMITS = Limits(most=200, most_bytes=16 * 1024**2, most_entries=20_000)
"""Of one commit that swaps files: some seconds, of which 4,000 entries with twenty columns of bounds take one. The rest waits
for the next commit."""


def groups(
    manifests: Iterable[ManifestFile], properties: Mapping[str, str]
) -> list[tuple[ManifestFile, ...]]:
    """Those of some manifests of which one each is to be made, none where they are few.

    Manifests of one spec and content go together, the oldest first: what came at about the same time lies in the same
    partitions, as a rule.

    Args:
        manifests: none of the commit's own.
        properties: of the table: whether manifests are merged, from how many on, and up to which size.
    """
    # PyIceberg has False for the first; Iceberg's Java, and so everybody else, merges.
    if not says(properties, TableProperties.MANIFEST_MERGE_ENABLED, default=True):
        return []
    size = _number(
        properties,
        TableProperties.MANIFEST_TARGET_SIZE_BYTES,
        TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
    )
    size = min(size, LIMITS.most_bytes)
    least = _number(
        properties,
        TableProperties.MANIFEST_MIN_MERGE_COUNT,
        TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
    )
    alike: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    for manifest in clear(manifests):
        if manifest.manifest_length < size:
            alike.setdefault((manifest.partition_spec_id, manifest.content), []).append(manifest)
    found: list[tuple[ManifestFile, ...]] = []
    left = LIMITS
    of_one = Limits(LIMITS.most, size, LIMITS.most_entries)
    for small in alike.values():
        if len(small) < max(least, 2):
            continue
        for group in packed(sorted(small, key=_age), of_one):
            if len(group) > 1 and left.hold(group):
                found.append(group)
                left = left.without(group)
    return found


def live_entries(manifests: Iterable[ManifestFile]) -> int | None:
    """How many live entries a list says that its manifests have, or None where it does not say."""
    total = 0
    for manifest in manifests:
        if manifest.added_files_count is None or manifest.existing_files_count is None:
            return None
        total += manifest.added_files_count + manifest.existing_files_count
    return total


def clear(manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
    """Those of which a list says how many files they hold, and that it names once.

    Readers have the rows of one that is named twice twice. What takes its place could take that of both.
    """
    found = list(manifests)
    times = Counter(manifest.manifest_path for manifest in found)
    return [one for one in found if times[one.manifest_path] == 1 and live_entries([one]) is not None]


def _age(manifest: ManifestFile) -> tuple[int, str]:
    return manifest.sequence_number or 0, manifest.manifest_path


def _entries(manifest: ManifestFile) -> int:
    """How many are read: also those of files that left."""
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return sum(count or 0 for count in counts)


def packed(manifests: Sequence[ManifestFile], limits: Limits) -> list[tuple[ManifestFile, ...]]:
    """Neighbours together, as many as one may hold."""
    found: list[list[ManifestFile]] = []
    left = limits
    for manifest in manifests:
        if not found or not left.hold([manifest]):
            found.append([])
            left = limits
        found[-1].append(manifest)
        left = left.without([manifest])
    return [tuple(group) for group in found]


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    """A property that is a number; the default where somebody wrote something else there."""
    try:
        found = property_as_int(dict(properties), name, default)
    except ValueError:
        found = None
    return default if found is None else found
