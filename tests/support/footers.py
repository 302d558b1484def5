"""Footers of Parquet files, changed field by field."""

from collections.abc import Callable
from pathlib import Path

from isotherm.parquet.compact_thrift import Struct, bytes_of
from isotherm.parquet.footer import read_footer


def rewritten(path: Path, change: Callable[[Struct], None]) -> None:
    """Change the footer of a file."""
    with path.open("rb") as stream:
        fields = read_footer(stream).fields
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    change(fields)
    footer = bytes_of(fields)
    path.write_bytes(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def group(fields: Struct, number: int = 0) -> Struct:
    found: Struct = fields[4].value.values[number]
    return found


def chunk(fields: Struct, column: int = 0) -> Struct:
    found: Struct = group(fields)[1].value.values[column]
    return found


def meta(fields: Struct, column: int = 0) -> Struct:
    found: Struct = chunk(fields, column)[3].value
    return found
