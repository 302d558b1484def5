"""Which manifests a commit makes one of, as Iceberg's own merging append does.

A stream that appends fast leaves a manifest for each commit, and each reader opens all of them. A commit that swaps
files writes manifests anyway, so it merges small ones along, as the table's properties say.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import TableProperties
from pyiceberg.utils.properties import property_as_int

from isotherm.contract.properties import says

MOST = 200
MOST_BYTES = 16 * 1024**2
MOST_ENTRIES = 20_000
"""So many manifests are read in one commit at most, so much of them, and so many entries: some seconds, of which 4,000
entries with twenty columns of bounds take one. The rest waits for the next commit."""


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
    size = min(size, MOST_BYTES)
    least = _number(
        properties,
        TableProperties.MANIFEST_MIN_MERGE_COUNT,
        TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
    )
    alike: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    for manifest in _clear(manifests):
        if manifest.manifest_length < size:
            alike.setdefault((manifest.partition_spec_id, manifest.content), []).append(manifest)
    found: list[tuple[ManifestFile, ...]] = []
    left, left_bytes, left_entries = MOST, MOST_BYTES, MOST_ENTRIES
    for small in alike.values():
        packed = _packed(sorted(small, key=_age), size) if len(small) >= max(least, 2) else []
        for group in packed:
            size_bytes = sum(manifest.manifest_length for manifest in group)
            entries = sum(map(_entries, group))
            fits = len(group) <= left and size_bytes <= left_bytes and entries <= left_entries
            if len(group) > 1 and fits:
                found.append(group)
                left, left_bytes, left_entries = (
                    left - len(group),
                    left_bytes - size_bytes,
                    left_entries - entries,
                )
    return found


def live_entries(manifests: Iterable[ManifestFile]) -> int | None:
    """How many live entries a list says that its manifests have, or None where it does not say."""
    total = 0
    for manifest in manifests:
        if manifest.added_files_count is None or manifest.existing_files_count is None:
            return None
        total += manifest.added_files_count + manifest.existing_files_count
    return total


def _clear(manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
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


def _packed(manifests: Sequence[ManifestFile], size: int) -> list[tuple[ManifestFile, ...]]:
    """Neighbours together, up to a size, and no more than one commit reads."""
    packed: list[list[ManifestFile]] = [[]]
    full = entries = 0
    for manifest in manifests:
        is_full = full + manifest.manifest_length > size or entries + _entries(manifest) > MOST_ENTRIES
        if packed[-1] and (is_full or len(packed[-1]) == MOST):
            packed.append([])
            full = entries = 0
        packed[-1].append(manifest)
        full, entries = full + manifest.manifest_length, entries + _entries(manifest)
    return [tuple(group) for group in packed]


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    """A property that is a number; the default where somebody wrote something else there."""
    try:
        found = property_as_int(dict(properties), name, default)
    except ValueError:
        found = None
    return default if found is None else found
