"""Metadata files, and answers of a catalog, read whole within limits before anything is made of them.

Whoever owns a table chooses how large its metadata is, and how many things are in it. What PyIceberg makes of it takes
up to twenty times as much memory, and the daemon has one memory for all tables. It also takes seven times as long as
reading the JSON: who needs only the newest snapshots has the others left out before.
"""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import local
from typing import Any, NamedTuple

from pyiceberg.io import InputFile

MAX_METADATA_BYTES = 64 * 1024 * 1024
"""Of a metadata.json, or of any answer of a catalog: some 50,000 snapshots. In memory it takes several times that."""
MAX_METADATA_OBJECTS = 300_000
"""JSON objects in it, each some kilobyte in memory: a snapshot has three, a branch or a tag one."""
MAX_METADATA_VALUES = 2_000_000
"""Entries of its lists and maps, and lists: each is some 300 bytes in memory, however few in the file. A snapshot has 25 to 40."""
PIECE_BYTES = 1024 * 1024
GZIP_MAGIC = b"\x1f\x8b"
METADATA_NAMES = (".metadata.json", ".metadata.json.gz")


NEWEST = "isotherm.newest-snapshots"
"""Property of a client that wants no more snapshots of a table than so many, back from its head, and those that are refs."""


END_BYTES = 64 * 1024
"""Of a version, so much of its begin and of its end: every writer has its uuid and its time among the first of its fields.
The last sequence number is one of the first, or of the last."""
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"]+)"')
_UPDATED = re.compile(rb'"last-updated-ms"\s*:\s*(\d+)')
_SEQUENCE_NUMBER = re.compile(rb'"last-sequence-number"\s*:\s*(\d+)')
_LOGGED = re.compile(rb'"metadata-file"\s*:\s*"([^"\\]+)"')
_MARK_OR_TEXT = re.compile(rb'[,\[]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""What separates values or begins a list, or a text, which may have the same characters in it."""


class Version(NamedTuple):
    """Whose version of the metadata a file is, and when it was made, by its writer's clock."""

    uuid: str
    updated_ms: int
    sequence_number: int | None = None
    """The last one of the table; None where it does not say."""
    base: str | None = None
    """The version that it went on from; None where it does not say."""


def version_of(head: bytes, tail: bytes = b"") -> Version | None:
    """What the first and the last `END_BYTES` of a file show; None where it does not begin as a version of a table does."""
    uuid, updated = _UUID.search(head), _UPDATED.search(head)
    if not head.lstrip().startswith(b"{") or uuid is None or updated is None:
        return None
    number = _SEQUENCE_NUMBER.search(head) or _SEQUENCE_NUMBER.search(tail)
    logged = _LOGGED.findall(tail) or _LOGGED.findall(head)
    return Version(
        uuid[1].decode(errors="replace"),
        int(updated[1]),
        None if number is None else int(number[1]),
        logged[-1].decode(errors="replace") if logged else None,
    )


MAX_PACKED_BYTES = 8 * 1024 * 1024
"""Of a packed version: metadata is packed to a tenth."""


def unpacked_ends(packed: bytes) -> tuple[bytes, bytes]:
    """The first and the last `END_BYTES` of what was packed, up to what a metadata file may have; empty where it is damaged.

    Raises:
        TooLargeError: it is more than the metadata of a table that is looked at whole.
    """
    if len(packed) > MAX_PACKED_BYTES:
        raise TooLargeError(f"it has more than {MAX_PACKED_BYTES} bytes, packed")
    head = tail = b""
    size = 0
    try:
        with gzip.open(io.BytesIO(packed)) as stream:
            while size < MAX_METADATA_BYTES and (piece := stream.read(PIECE_BYTES)):
                head = head or piece[:END_BYTES]
                tail, size = (tail + piece)[-END_BYTES:], size + len(piece)
    except (OSError, EOFError, zlib.error):
        return b"", b""
    return head, tail


class TooLargeError(ValueError):
    """What the owner of a table made, or a catalog answered, is more than a daemon for many tables can take in."""


def within_limits(pieces: Iterable[bytes], what: str) -> bytes:
    """The pieces of a JSON text as a whole.

    Raises:
        TooLargeError: it has more bytes, objects or values than a table's metadata has; of more bytes or objects, the rest
            was not asked for.
    """
    taken, size, objects, marks = [], 0, 0, 0
    for piece in pieces:
        taken.append(piece)
        size, objects = size + len(piece), objects + piece.count(b"{")
        marks += piece.count(b",") + piece.count(b"[")
        if size > MAX_METADATA_BYTES:
            raise TooLargeError(
                f"{what} has more than {MAX_METADATA_BYTES} bytes; expire snapshots, or leave it out"
            )
        if objects > MAX_METADATA_OBJECTS:
            raise TooLargeError(
                f"{what} has more than {MAX_METADATA_OBJECTS} snapshots, refs and the like; expire or drop some, or "
                "leave it out"
            )
    whole = b"".join(taken)
    # Texts may have many commas, as a vector of Kafka's offsets has. They are told apart only where it matters.
    if marks > MAX_METADATA_VALUES and not _has_few_values(whole):
        raise TooLargeError(
            f"{what} has more than {MAX_METADATA_VALUES} values; expire snapshots, drop properties, or leave it out"
        )
    return whole


def _has_few_values(text: bytes) -> bool:
    marks = texts = 0
    for found in _MARK_OR_TEXT.finditer(text):
        if text[found.start()] == _QUOTE:
            texts += 1
        else:
            marks += 1
        # An entry has no more than two texts. What has, is no JSON, and is not looked at to its end.
        if max(marks, texts // 2) > MAX_METADATA_VALUES:
            return False
    return True


_QUOTE = ord('"')


def newest_of(properties: Mapping[str, Any]) -> int | None:
    """How many snapshots a client wants; None for all."""
    return int(properties[NEWEST]) if NEWEST in properties else None


def newest_only(data: bytes, count: int) -> bytes:
    """Metadata, or a catalog's answer with it, without older snapshots.

    Args:
        data: JSON; what is anything else, or packed, comes back as it is.
        count: how many snapshots stay at least where there are more: from the head back by their parents, those that a branch
            or tag names, and the last others if that is less.
    """
    try:
        whole = json.loads(data)
        metadata = whole.get("metadata", whole)
        snapshots = {one["snapshot-id"]: one for one in metadata["snapshots"]}
        if len(snapshots) <= count:
            return data
        at = metadata["current-snapshot-id"]
        stay = {ref["snapshot-id"] for ref in metadata.get("refs", {}).values()} & snapshots.keys()
        for _ in range(count):
            if at not in snapshots:
                break
            stay.add(at)
            at = snapshots[at].get("parent-snapshot-id")
        others = [one for one in snapshots if one not in stay]
        stay |= set(others[len(others) - max(count - len(stay), 0) :])
        metadata["snapshots"] = [one for one in metadata["snapshots"] if one["snapshot-id"] in stay]
        metadata["snapshot-log"] = [
            one for one in metadata.get("snapshot-log", ()) if one["snapshot-id"] in stay
        ]
        return json.dumps(whole).encode()
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # PyIceberg says what is wrong with it
        return data


@dataclass(slots=True)
class Reading:
    """What is being read for a table that is loaded: for whoever gives it up."""

    location: str = ""
    size_bytes: int = 0


class _Here(local):
    """The metadata file that this thread has opened last, of those that it loads a table from."""

    location: str | None = None
    reading: Reading | None = None
    """To be told of each remote file that is read, where somebody waits for this thread."""


opened = _Here()


class MetadataFile(InputFile):
    """A metadata file, read whole before anything is made of it."""

    def __init__(self, file: Any, newest: int | None = None) -> None:
        """With `newest`, only so many snapshots are given: `newest_only`."""
        super().__init__(file.location)
        self._file = file
        self._newest = newest

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        """Whether it is there."""
        return bool(self._file.exists())

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 (always seekable)
        """Its bytes; packed ones stay packed, because PyIceberg unpacks them.

        Raises:
            TooLargeError: it has more than metadata has, unpacked or not.
        """
        what, opened.location = f"the metadata {self.location}", self.location
        with self._file.open() as stream:
            data = within_limits(_pieces(stream), what)
        if data.startswith(GZIP_MAGIC):
            with gzip.open(io.BytesIO(data)) as unpacked:
                within_limits(_pieces(unpacked), what)
        return io.BytesIO(data if self._newest is None else newest_only(data, self._newest))


def _pieces(stream: Any) -> Iterator[bytes]:
    while piece := bytes(stream.read(PIECE_BYTES)):
        yield piece
