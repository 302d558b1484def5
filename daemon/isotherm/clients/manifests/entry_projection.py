"""What counting needs of a manifest entry, and no more: most of an entry is statistics, which are passed over.

Made from the reader that PyIceberg resolves for whole entries, whose structs are laid flat, so that an entry becomes
one short value in the place of three records and two dozen fields.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.reader import IntegerReader, ListReader, MapReader, OptionReader, Reader, StructReader
from pyiceberg.avro.resolver import EnumReader
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

Step = tuple[int | None, Callable[[BinaryDecoder], Any]]
DATA_FILE, PARTITION_FIELD, UPPER_BOUNDS = 2, 102, 128
SLOTS: Final = {0: 0, 1: 1, 134: 2, 101: 3, 103: 4, 104: 5, UPPER_BOUNDS: 6, 145: 7}
"""Where a value goes, by Iceberg's field id; -1 is the partition's list."""
_STATUSES = frozenset(one.value for one in ManifestEntryStatus)
_CONTENTS = frozenset(one.value for one in DataFileContent)


class Brief(NamedTuple):
    """An entry as counting wants it, with the plain numbers of Iceberg's enumerations."""

    status: int
    snapshot_id: int | None
    content: int
    file_format: str
    rows: int
    size_bytes: int
    """Of a deletion vector those of its blob: one Puffin file holds many."""
    upper_bounds: Mapping[int, bytes] | None
    """By the ids of columns."""
    partition: tuple[Any, ...]


class BriefReader:
    """Reads entries of one layout."""

    def __init__(self, entry: Reader) -> None:
        self._steps = tuple(_flat(entry, SLOTS))

    def read(self, decoder: BinaryDecoder) -> Brief:
        """The next entry.

        Raises:
            ValueError: it makes no sense.
        """
        values: list[Any] = [None, None, 0, "", 0, 0, None, None]
        partition: list[Any] = []
        for slot, read in self._steps:
            if slot is None:
                read(decoder)
            elif slot < 0:
                partition.append(read(decoder))
            else:
                values[slot] = read(decoder)
        if values[0] not in _STATUSES or values[2] not in _CONTENTS:
            raise ValueError(f"an entry has status {values[0]} and content {values[2]}")
        if (blob_bytes := values.pop()) is not None:
            values[SLOTS[104]] = blob_bytes
        return Brief._make((*values, tuple(partition)))


def _flat(reader: Reader, slots: dict[int, int]) -> list[Step]:
    """The fields of a struct in the order of the file, those of the structs in it in their places."""
    if not isinstance(reader, StructReader):
        raise TypeError("a manifest entry is a struct of structs")
    steps: list[Step] = []
    for position, one in reader.field_readers:
        field_id = None if position is None else reader.struct.fields[position].field_id
        if field_id == DATA_FILE:
            steps += _flat(one, slots)
        elif field_id == PARTITION_FIELD:
            if not isinstance(one, StructReader):
                raise TypeError("a partition is a struct")
            steps += [(-1, part.read) for _, part in one.field_readers]
        elif field_id in slots:
            steps.append((slots[field_id], one.reader.read if isinstance(one, EnumReader) else one.read))
        else:
            steps.append((None, one.skip if position is None else _passed(one)))
    return steps


def _passed(reader: Reader) -> Callable[[BinaryDecoder], Any]:
    """How a known field is passed over: PyIceberg reads maps and lists of numbers faster than it skips them."""
    inner = reader.option if isinstance(reader, OptionReader) else reader
    if isinstance(inner, MapReader) and isinstance(inner.key, IntegerReader):
        in_each = 2 if isinstance(inner.value, IntegerReader) else 0
    else:
        in_each = int(isinstance(inner, ListReader) and isinstance(inner.element, IntegerReader))
    if in_each:
        return partial(_pass_numbers, in_each, isinstance(reader, OptionReader))
    return reader.read if isinstance(inner, MapReader | ListReader) else reader.skip


def _pass_numbers(in_each: int, is_option: bool, decoder: BinaryDecoder) -> None:
    """Pass over a map or a list with so many numbers in each item, which stand one behind another."""
    if is_option and decoder.read_int() <= 0:
        return
    while items := decoder.read_int():
        if items < 0:
            items = -items
            decoder.skip_int()  # the size of the block
        decoder.read_ints(in_each * items)
