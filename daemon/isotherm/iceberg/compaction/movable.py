"""Which files of older partition specs may be written in the current one, and into which of its partitions their rows go.

As their partition and the bounds of their rows say it. What a bound says may be wrong: each row is held against the partitions
that are named here when it is written (`division`).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.files import FileKind
from isotherm.core.model.job_limits import MAX_JOB_FILES, MAX_OUTPUTS
from isotherm.core.model.jobs import Destination, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.model.tables import PartitionField
from isotherm.core.older_specs import WITHOUT_VALUE, of_ordinals, only_field, ordinal, outputs_of
from isotherm.core.partitions import label
from isotherm.core.units import clock_text
from isotherm.iceberg.compaction.job_files import in_order
from isotherm.iceberg.compaction.names import destination
from isotherm.iceberg.manifests.live import LiveEntry
from isotherm.iceberg.manifests.time_ranges import TimeRange, time_ranges
from isotherm.iceberg.partition_fields import partition_fields, why_not_moved
from isotherm.iceberg.stopping import IsStopped, Stopped

_File = tuple[str, int | None]
Movable = Mapping[_File, Sequence[PartitionKey]]
"""The files that one job may move, and the partitions into which the rows of each go."""


class _Stays(Enum):
    """Why a file stays for now."""

    YOUNG = "hold rows from {before} on, where nothing is sure to be cold"
    HOT = "hold rows of partitions that are hot ({hot})"
    UNKNOWN = "go into partitions that are not known, or are too many"


def movable(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey,
    live: Iterable[LiveEntry],
    take: Take,
    is_stopped: IsStopped,
) -> Movable | Refusal | None:
    """The files of a partition that a job may move: the oldest, as far as they go into no more partitions than it may write.

    Returns None where nothing is to be moved, or why nothing can be.
    """
    if take.output_spec_id is None:
        return None
    if take.output_spec_id != metadata.default_spec_id:
        return Refusal(Reason.SCHEMA, "another partition spec is current by now")
    if why := why_not_moved(metadata):
        return Refusal(Reason.OUTPUT_SPEC, why)
    live = tuple(live)
    if by := deleted_by_key(live):
        return Refusal(Reason.OUTPUT_SPEC, by)
    fields = partition_fields(metadata)
    field = only_field(fields)
    if field is None or field.source_id is None:
        return Refusal(Reason.SCHEMA, "the current partition spec has no single field by now")
    by_key = outputs_of(partition, fields)
    told = time_ranges(metadata, io, snapshot, partition, field.source_id, is_stopped)
    older = [
        entry for entry in live if entry.kind is FileKind.DATA and entry.spec_id != metadata.default_spec_id
    ]
    each = [
        (entry, _as_told(field, told[entry.path], by_key, take.before_ms))
        for entry in sorted(older, key=in_order)
    ]
    found, staying = _oldest(((entry, _unless_hot(one, take)) for entry, one in each), is_stopped)
    if found:
        return found
    all_of = (key for _, one in each if not isinstance(one, _Stays) for key in one)
    return _refusal(staying, take, next((key for key in all_of if key in take.not_into), None), fields)


def _oldest(
    each: Iterable[tuple[LiveEntry, Sequence[PartitionKey] | _Stays]], is_stopped: IsStopped
) -> tuple[Movable, list[_Stays]]:
    """Of files and where they go those that one job may move, and why others stay."""
    found: dict[_File, Sequence[PartitionKey]] = {}
    named: set[PartitionKey] = set()
    staying: list[_Stays] = []
    for entry, outputs in each:
        if is_stopped():
            raise Stopped
        if len(found) == MAX_JOB_FILES:
            break
        if isinstance(outputs, _Stays):
            staying.append(outputs)
        elif len(named | set(outputs)) <= MAX_OUTPUTS:
            named |= set(outputs)
            found[entry.identity] = outputs
        elif not found:
            staying.append(_Stays.UNKNOWN)
    return found, staying


def _unless_hot(outputs: Sequence[PartitionKey] | _Stays, take: Take) -> Sequence[PartitionKey] | _Stays:
    """The partitions into which the rows of one file go, if none of them is hot."""
    if isinstance(outputs, _Stays) or take.not_into.keys().isdisjoint(outputs):
        return outputs
    return _Stays.HOT


def _as_told(
    field: PartitionField, told: TimeRange, by_key: Sequence[PartitionKey] | None, before_ms: int | None
) -> Sequence[PartitionKey] | _Stays:
    """The partitions into which the rows of one file go, hot or not."""
    if told.has_none and by_key is None:
        return [WITHOUT_VALUE]
    if told.first_ms is None or told.last_ms is None:
        return _Stays.UNKNOWN if by_key is None else by_key
    if before_ms is not None and told.last_ms >= before_ms:
        return _Stays.YOUNG
    first, last = ordinal(told.first_ms, field), ordinal(told.last_ms, field)
    if not 0 <= last - first < MAX_OUTPUTS:
        return _Stays.UNKNOWN  # too many, or bounds that nobody can believe
    by_rows = of_ordinals(field, first, last)
    if by_key is not None:
        # Where they speak against each other, a row says which of them is wrong.
        return [key for key in by_rows if key in set(by_key)] or by_key
    return [*by_rows, WITHOUT_VALUE] if told.may_lack else by_rows


def _refusal(
    staying: Sequence[_Stays], take: Take, hot: PartitionKey | None, fields: Sequence[PartitionField]
) -> Refusal:
    """Why no file can be moved. `hot`: one of the partitions that are, into which rows of theirs go."""
    if not staying:
        return Refusal(Reason.OUTPUT_SPEC, "no file of an older partition spec is in it")
    before = clock_text(take.before_ms or 0)
    keeps = "" if hot is None else f"{label(hot, fields)}: {take.not_into[hot]}"
    parts = [
        f"{count} {why.value.format(before=before, hot=keeps)}"
        for why in _Stays
        if (count := staying.count(why))
    ]
    why = f"{len(staying)} files of older partition specs: {', and '.join(parts)}"
    return Refusal(Reason.OUTPUT_SPEC, why)


def deleted_by_key(live: Iterable[LiveEntry]) -> str | None:
    """That files delete rows by key, whatever snapshots say of it, or None."""
    found = next((one for one in live if one.kind is FileKind.EQUALITY_DELETES), None)
    return None if found is None else f"rows of the table are replaced by key ({found.path})"


def place_of(metadata: TableMetadata, spec_id: int, outputs: Sequence[PartitionKey]) -> Destination:
    """Where what is moved is written: in its partition's folder, or where they are many in none. No reader goes by it."""
    place = destination(metadata, spec_id, outputs[0])
    return place if len(outputs) == 1 else Destination(place.location, "", place.properties)
