"""Live files as a manifest has them: Parquet, of one row, of an unpartitioned table unless it is said."""

from typing import Any

from pyiceberg.manifest import FileFormat

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.files import FileKind
from isotherm.iceberg.manifests.live import LiveEntry


def entry(path: str, kind: FileKind = FileKind.DATA, number: int = 1, **more: Any) -> LiveEntry:
    values: dict[str, Any] = {"spec_id": 0, "partition": UNPARTITIONED, "size_bytes": 1, "rows": 1, **more}
    return LiveEntry(
        path,
        None,
        kind,
        sequence_number=number,
        file_format=FileFormat.PARQUET,
        is_encrypted=False,
        **values,
    )


def delete(
    path: str = "d", number: int = 1, kind: FileKind = FileKind.POSITION_DELETES, **more: Any
) -> LiveEntry:
    return entry(path, kind, number, **more)


def equality(number: int, **more: Any) -> LiveEntry:
    return entry("e", FileKind.EQUALITY_DELETES, number, equality_ids=(1,), **more)
