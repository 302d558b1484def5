"""Mistakes in the modules that make a file, by what they break: each the text of one line, and another in its place."""

import pytest

READER = {
    "batches lose their first row": (
        "return pa.RecordBatch.from_arrays(arrays,",
        "return pa.RecordBatch.from_arrays([one.slice(1) for one in arrays],",
    ),
    "two columns are taken for each other": (
        "tuple(every[place] for place in wanted)",
        "tuple(every[place] for place in [wanted[1], wanted[0], *wanted[2:]])",
    ),
    "rows of one column come in another order": (
        "for name, number in self._places]",
        "for name, number in self._places]; arrays[0] = arrays[0].take(pa.array(range(batch.num_rows)[::-1]))",
    ),
    "one value is read as its neighbour": (
        "for name, number in self._places]",
        "for name, number in self._places]; c = pa.compute; arrays[0] = c.if_else(c.equal(arrays[0], 9999999), 9999998, arrays[0])",
    ),
    "timestamps of 96 bits wrap": (
        'coerce_int96_timestamp_unit="us"',
        'coerce_int96_timestamp_unit="ns"',
    ),
}
DELETES = {
    "the mask is shifted": ("deleted.staying(file, start,", "deleted.staying(file, start + 1,"),
    "the mask ends too early": (
        "bisect_left(positions, end)",
        "bisect_left(positions, end - 1)",
    ),
    "deletes do not apply to files of their own age": (
        "is_younger = pc.greater(written_at",
        "is_younger = pc.greater_equal(written_at",
    ),
    "deletes apply to younger files": ("pc.if_else(is_younger, None, paths)", "paths"),
    "the last delete file is forgotten": (
        "in _positions_in(path, delete, asked, written_at, spellings):",
        "in _positions_in(path, delete, asked, written_at, spellings) if delete != job.delete_files[-1] else ():",
    ),
    "files of a batch are not told apart": (
        "yield number, positions[start:end]",
        "yield runs.values[0].as_py(), positions[start:end]",
    ),
    "what is deleted stays, and what stays goes": (
        "pc.invert(pc.is_in(",
        "(pc.is_in(",
    ),
}
MERGING = {
    **{
        what: DELETES[what]
        for what in (
            "deletes do not apply to files of their own age",
            "deletes apply to younger files",
            "the last delete file is forgotten",
            "files of a batch are not told apart",
        )
    },
    "rows behind the end of a file are deleted": (
        "bisect_left(positions, 0) : bisect_left(positions, file.rows)]",
        "bisect_left(positions, 0) :]",
    ),
    "a row is deleted twice": ("_bytes(ordered.filter(is_last))", "_bytes(ordered)"),
    "the first position of each file is lost": (
        "part = positions[start : start",
        "part = positions[start + 1 : start",
    ),
    "each position is one too many": (
        "pa.array(part, pa.int64())",
        "pa.array([one + 1 for one in part], pa.int64())",
    ),
    "all positions are of one file": ("pa.scalar(file.path,", "pa.scalar(job.staying[0].path,"),
    "deletes that were applied are written too": (
        "for file in job.staying:\n",
        "for file in job.named_files:\n",
    ),
    "nothing is written": ("            output.write(rows)\n", "            continue\n"),
}
KEYED = {
    "deletes apply to files of their own age": (
        "pc.greater(self._index.deleted_at(rows)",
        "pc.greater_equal(self._index.deleted_at(rows)",
    ),
    "deletes apply to younger files": (
        "pc.greater(self._index.deleted_at(rows), file.sequence_number)",
        "self._index.deleted_at(rows).is_valid()",
    ),
    "the first time that a key was deleted counts": (
        '[("number", "max")]).sort_by("code").column("number_max")',
        '[("number", "min")]).sort_by("code").column("number_min")',
    ),
    "null is no key": (
        "index_in(array, value_set=values)",
        "index_in(array, value_set=values, skip_nulls=True)",
    ),
    "only the first column counts": ("pc.add(pc.multiply(codes, len(values)), here)", "codes"),
    "only the last column counts": ("pc.add(pc.multiply(codes, len(values)), here)", "here"),
    "two keys are one number": ("pc.multiply(codes, len(values))", "codes"),
    "only the first keys of a file are known": (
        "self._parts.append((arrays, delete.sequence_number))",
        "self._parts.append(([one[:1] for one in arrays], delete.sequence_number))",
    ),
    "deletes by other columns are forgotten": (
        "for of in keys.values():",
        "for of in [*keys.values()][:1]:",
    ),
    "the last piece is lost": ("    if pending:\n        yield _joined(pending)\n", ""),
    "a file that is as old as the newest delete but one is not looked at": (
        "if file.sequence_number < newest}",
        "if file.sequence_number < newest - 7}",
    ),
}
IN_PIECES = (
    ("if size_bytes >= BATCH_BYTES:", "if size_bytes >= 0:"),
    ("rows = FIRST_BATCH_ROWS", "rows = 7"),
    ("rows + delete.rows > KEY_ROWS", "rows + delete.rows > 1"),
)
"""Each batch by itself, and each delete file too."""
PIECES = {
    "positions begin anew": ("start += len(is_gone)", "start += 0"),
    "the last delete file is forgotten": ("    if part:\n        yield part\n", ""),
}
PROJECTION = {
    "columns are found by their places": (
        "places = {column.field_id: place for place, column in enumerate(columns)}",
        "places = {{1: 2, 2: 1}.get(one.field_id, one.field_id): place for place, one in enumerate(columns)}",
    ),
    "null lists become empty ones": (
        "return make.from_arrays(offsets.cast(index), values, type=arrow, mask=array.is_null())",
        "return make.from_arrays(offsets.cast(index), values, type=arrow)",
    ),
    "null maps become empty ones": (
        "return pa.MapArray.from_arrays(offsets, keys, items, type=arrow, mask=array.is_null())",
        "return pa.MapArray.from_arrays(offsets, keys, items, type=arrow)",
    ),
    "null structs become structs of nulls": (
        "fields=list(arrow), mask=array.is_null())",
        "fields=list(arrow))",
    ),
    "nested fields are lost": (
        "if (place := places.get(field.field_id)) is not None:\n            children",
        "if (place := None) is not None:\n            children",
    ),
    "a column that is the partition's is null": (
        "value = constants.get(field.field_id, initial_default(field))",
        "value = None",
    ),
}
WRITER = {
    "a row group is written twice": (
        "self._pending.append(part)",
        "self._pending += [part, part][: 1 + (self._rows == 0)]",
    ),
    "the last rows are lost": (
        "self._pending.append(part)",
        "self._pending.append(part.slice(0, part.num_rows - 1))",
    ),
}
STATISTICS = {
    "a row group without bounds counts as one without values": (
        "                continue\n            return None, None",
        "                continue\n            continue",
    ),
    "the lower bound is that of the last row group": ("else min(least, low)", "else low"),
    "the upper bound is that of the first row group": ("else max(greatest, high)", "else greatest"),
    "a text is cut off and not grown": ("characters[-1] += 1", "characters[-1] += 0"),
    "nulls of the first row group alone": (
        "sum(one.null_count for one in told)",
        "sum(one.null_count for one in told[:1])",
    ),
    "values of the first row group alone": (
        "sum(chunk.num_values for chunk in chunks)",
        "sum(chunk.num_values for chunk in chunks[:1])",
    ),
    "what is no number is not counted": ("pc.sum(pc.is_nan(values)).as_py() or 0", "0"),
    "bounds of one column are told of another": (
        "[group.column(place) for group in groups]",
        "[group.column(1 - place if place < 2 else place) for group in groups]",
    ),
    "an upper bound is the lower one, which is infinite": (
        "layout = _FORMATS[type(iceberg)]",
        "greatest = least if isinstance(iceberg, TimestamptzType) else greatest; layout = _FORMATS[type(iceberg)]",
    ),
    "negative decimals lose their sign": (
        'return value.to_bytes((bits + 7) // 8, "big", signed=True)',
        'return abs(value).to_bytes((bits + 7) // 8, "big", signed=True)',
    ),
}
MUTANTS = [
    pytest.param(module, change, id=f"{name}: {what}")
    for name, module, changes in (
        ("reader", "rewrite", READER),
        ("deletes", "rewrite", DELETES),
        ("projection", "projection", PROJECTION),
        ("writer", "rewrite", WRITER),
        ("statistics", "statistics", STATISTICS),
    )
    for what, change in changes.items()
]
