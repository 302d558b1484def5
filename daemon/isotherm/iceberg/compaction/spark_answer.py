"""What a task of Spark answers, and what of it is believed.

Whoever may use the server may run code in its workers. So an answer is text and no pickle, and it must be what a rewrite of
this job could have said: files under the job's own names, columns of the table, numbers that manifests hold. What the files
hold is the word of whoever answers; the proof is made there.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import cast

from pydantic import TypeAdapter
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import PrimitiveType

from isotherm.core.model.jobs import CompactionJob, Rewrite, WrittenFile
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.model.tables import WITH_ROW_IDS
from isotherm.iceberg.compaction.delete_files import DELETED_ROWS
from isotherm.iceberg.compaction.names import data_location
from isotherm.iceberg.row_ids import with_row_ids
from isotherm.iceberg.values import name_mapping_of
from isotherm.parquet.table_description import table_of

MOST_ANSWER_BYTES = 64 * 1024**2
"""Of five hundred files with the statistics of a thousand columns; by default Iceberg keeps those of a hundred."""
_BOUNDS = ("lower_bounds", "upper_bounds")
"""What of a file is bytes."""
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")


def answer_of(result: Rewrite | Refusal) -> bytes:
    """What came of a task, as text."""
    kind = "rewrite" if isinstance(result, Rewrite) else "refusal"
    return json.dumps({kind: asdict(result)}, default=bytes.hex).encode()


def answered(answer: bytes, job: CompactionJob, description: str) -> Rewrite | Refusal:
    """What came of a job on the described table.

    Raises:
        ValueError: the answer is something else.
    """
    if len(answer) > MOST_ANSWER_BYTES:
        raise ValueError(f"a task answered with {len(answer)} bytes; the limit is {MOST_ANSWER_BYTES}")
    try:
        data = json.loads(answer)
        if "refusal" in data:
            said = data["refusal"]
            why = str(said["why"]).encode(errors="replace").decode()
            return Refusal(Reason(said["reason"]), why)
        for file in (*data["rewrite"]["files"], *data["rewrite"]["merged"]["files"]):
            for name in _BOUNDS:
                file[name] = {field: bytes.fromhex(value) for field, value in file[name].items()}
        found: Rewrite = TypeAdapter(Rewrite).validate_python(data["rewrite"])
    except (TypeError, KeyError, AttributeError, RecursionError, ValueError) as err:
        raise ValueError(f"a task answered with something else: {type(err).__name__}") from err
    for problem in _problems(found, job, table_of(description)):
        raise ValueError(f"a task answered with something else: {problem}")
    return found


def _problems(found: Rewrite, job: CompactionJob, metadata: TableMetadata) -> Iterator[str]:
    """What no rewrite of the job would say."""
    names = [data_location(job, metadata, number) for number in range(len(found.all_files))]
    if [file.path for file in found.all_files] != names:
        yield "files that are not the job's"
    told = (
        found.job_id,
        found.schema_id,
        found.name_mapping,
        found.has_row_ids,
        found.sort_order_id or job.sort_order_id,
    )
    known = (
        job.job_id,
        metadata.current_schema_id,
        name_mapping_of(metadata),
        metadata.format_version >= WITH_ROW_IDS,
        job.sort_order_id,
    )
    may_lie_in = set(job.outputs) if job.output_spec_id is not None else {None}
    if not {file.partition for file in found.files} <= may_lie_in:
        yield "files of other partitions"
    if told != known:
        yield "another job, schema, or order"
    if found.rows_deleted and not job.delete_files:
        yield "deleted rows, where nothing deletes any"
    merged = found.merged
    counts = [found.rows_read, found.rows_deleted, found.rows_written, found.bytes_read, found.bytes_written]
    counts += [found.peak_memory_bytes, merged.positions_read, merged.positions_written]
    hashes = (found.hash_read, found.hash_written, merged.hash_read, merged.hash_written)
    if not (
        all(map(_is_count, counts)) and all(0 <= one < 2**128 for one in hashes) and _is_span(found.seconds)
    ):
        yield "numbers that count nothing"
    schema = with_row_ids(metadata).schema()
    for file in found.files:
        yield from _problems_of(file, schema)
    for file in merged.files:
        yield from _problems_of(file, DELETED_ROWS)


def _problems_of(file: WrittenFile, schema: Schema) -> Iterator[str]:
    """What is not true of any file with this schema."""
    counts = [file.size_bytes, file.rows, *file.split_offsets]
    for name in _COUNTS:
        told: Mapping[int, int] = getattr(file, name)
        counts += told.values()
        if not told.keys() <= set(schema.field_ids):
            yield "columns that the table does not have"
    if not all(map(_is_count, counts)) or sorted(file.split_offsets) != list(file.split_offsets):
        yield "numbers that count nothing"
    for name in _BOUNDS:
        bounds: Mapping[int, bytes] = getattr(file, name)
        for field_id, value in bounds.items():
            try:
                from_bytes(cast(PrimitiveType, schema.find_type(field_id)), value)
            except Exception:  # noqa: BLE001 (whatever a decoder of bytes may raise)
                yield "bounds that are none of the table's columns"


def _is_count(number: int) -> bool:
    return 0 <= number < 2**63


def _is_span(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds >= 0
