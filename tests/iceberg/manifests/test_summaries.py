"""The summaries of a manifest's partitions: no reader passes over a manifest that it needs."""

import math
import struct
import uuid
from collections.abc import Callable

import pytest
from pyiceberg.manifest import ManifestContent, ManifestFile, PartitionFieldSummary
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, LongType, PrimitiveType, UUIDType

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import WrittenFile
from isotherm.iceberg.manifests.partition_values import entry_partition_key, may_hold, partition_record
from isotherm.iceberg.manifests.writing import added, write_manifest
from support.manifest_entries import read

ONE, MIDDLE, LAST = (uuid.UUID(int=number) for number in (1, 2**127, 2**128 - 1))


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    [
        # Unsigned, as the specification says; signed, as older Java has it; neither of both.
        (ONE, LAST, [True, True, True]),
        (MIDDLE, ONE, [True, True, True]),
        (LAST, LAST, [False, False, True]),
    ],
)
def test_summaries_of_uuids_are_read_in_both_orders(
    make: Callable[..., Table], low: uuid.UUID, high: uuid.UUID, holds: list[bool]
) -> None:
    metadata = make(UUIDType(), IdentityTransform()).metadata
    summary = PartitionFieldSummary(False, False, low.bytes, high.bytes)
    manifest = ManifestFile.from_args(partition_spec_id=0, partitions=[summary])

    found = [may_hold(metadata, manifest, PartitionKey(f'{{"1000":"{one}"}}')) for one in (ONE, MIDDLE, LAST)]

    assert holds == found


SEVEN = (7).to_bytes(8, "little")


@pytest.mark.parametrize(
    "summaries",
    [
        [PartitionFieldSummary(False, False, bytes(3), bytes(3))],
        [PartitionFieldSummary(False, False, bytes(8), b"")],
        [PartitionFieldSummary(False, False, SEVEN, SEVEN)] * 2,
    ],
    ids=["too short", "empty", "too many"],
)
def test_a_manifest_whose_summaries_do_not_fit_its_spec_is_refused_by_its_name(
    make: Callable[..., Table], summaries: list[PartitionFieldSummary]
) -> None:
    metadata = make(LongType(), IdentityTransform()).metadata
    manifest = ManifestFile.from_args(manifest_path="/w/m.avro", partition_spec_id=0, partitions=summaries)

    with pytest.raises(UnreadableError, match=r"the summaries of /w/m\.avro do not fit the partition spec 0"):
        may_hold(metadata, manifest, PartitionKey('{"1000":7}'))


def test_a_partition_that_is_a_uuid_is_written_and_found(make: Callable[..., Table]) -> None:
    """PyIceberg's own append cannot write one."""
    table = make(UUIDType(), IdentityTransform())
    metadata, location = table.metadata, f"{table.location()}/m.avro"
    keys = [PartitionKey(f'{{"1000":"{one}"}}') for one in (ONE, LAST)]
    file = WrittenFile("x", 1, 1, {}, {}, {}, {}, {}, {}, ())
    new = [added(file, partition_record(metadata, 0, key), 1, 1) for key in keys]

    manifest = write_manifest(table.io, metadata, location, 0, ManifestContent.DATA, 1, new)

    assert keys == [entry_partition_key(metadata, 0, one) for one in read(table.io, manifest)]
    assert [True, True] == [may_hold(metadata, manifest, key) for key in keys]


@pytest.mark.parametrize(
    ("held", "has_summaries"),
    [
        ([ONE], True),
        ([LAST], True),
        ([MIDDLE, LAST], True),
        ([ONE, MIDDLE], False),
        ([ONE, MIDDLE, LAST], False),
    ],
)
@pytest.mark.parametrize("order", [">QQ", ">qq"])
def test_no_reader_passes_over_a_manifest_of_uuids_that_it_needs(
    make: Callable[..., Table], held: list[uuid.UUID], has_summaries: bool, order: str
) -> None:
    """Iceberg's Java compares UUIDs as two signed numbers, PyIceberg as bytes. Without summaries a manifest is read."""
    table = make(UUIDType(), IdentityTransform())
    metadata, location = table.metadata, f"{table.location()}/m.avro"
    file = WrittenFile("x", 1, 1, {}, {}, {}, {}, {}, {}, ())
    new = [added(file, Record(one), 1, 1) for one in held]

    manifest = write_manifest(table.io, metadata, location, 0, ManifestContent.DATA, 1, new)

    assert has_summaries is bool(manifest.partitions)
    for summary in manifest.partitions or ():
        low, high = (struct.unpack(order, one) for one in (summary.lower_bound, summary.upper_bound))
        assert all(low <= struct.unpack(order, one.bytes) <= high for one in held)


@pytest.mark.parametrize("kind", [(FloatType(), "<f"), (DoubleType(), "<d")], ids=["float", "double"])
@pytest.mark.parametrize("held", [[0.0, -0.0], [-0.0, 0.0], [1.5, 0.0, -0.0], [-1.5, -0.0, 0.0]])
def test_no_reader_passes_over_a_manifest_of_zeros_that_it_needs(
    make: Callable[..., Table], kind: tuple[PrimitiveType, str], held: list[float]
) -> None:
    """To Iceberg's Java -0.0 is less than 0.0, to Python they are the same."""
    type_, layout = kind
    table = make(type_, IdentityTransform())
    file = WrittenFile("x", 1, 1, {}, {}, {}, {}, {}, {}, ())
    new = [added(file, Record(one), 1, 1) for one in held]

    manifest = write_manifest(
        table.io, table.metadata, f"{table.location()}/m.avro", 0, ManifestContent.DATA, 1, new
    )

    (summary,) = manifest.partitions or ()
    ends = [struct.unpack(layout, one)[0] for one in (summary.lower_bound, summary.upper_bound)]
    least, *_, greatest = sorted(held, key=lambda one: (one, math.copysign(1, one)))
    assert list(map(str, (least, greatest))) == list(map(str, ends))
