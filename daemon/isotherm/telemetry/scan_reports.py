"""Reports of scans, as Iceberg's REST specification has them: `POST …/namespaces/{ns}/tables/{table}/metrics`.

Engines send them to their REST catalog by default, and few catalogs keep them. Here the same request is taken at the
same path, so an ingress before the catalog can mirror it. It has no authority: a report names a table that exists or
is dropped, and says nothing but that it was read. What is no report is refused, and nothing of any body is kept.
"""

import json
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import unquote_plus, urlsplit

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import from_json

from isotherm.contract.identity import name_from
from isotherm.core.observations import Reported
from isotherm.service.tables.scan_reports import ScanReports

MAX_BYTES: Final = 128 * 1024
"""A scan of 2,000 columns names them in some 60 kB."""
SCAN: Final = "scan-report"
FILE_COLUMN: Final = 2147483646
"""The id of Iceberg's column `_file`: UPDATE, DELETE and MERGE ask for it, readers hardly ever do."""

Id = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _Part(BaseModel):
    """What a report has beside what is asked of it is passed over, so that nobody pays for it."""

    model_config = ConfigDict(strict=True, frozen=True, alias_generator=lambda name: name.replace("_", "-"))


class _Report(_Part):
    report_type: str


class _Counter(_Part):
    value: Annotated[int, Field(ge=0, lt=2**63)]


class _Metrics(_Part):
    result_data_files: _Counter | None = None


class _ScanReport(_Part):
    table_name: str
    snapshot_id: Id
    schema_id: Id
    projected_field_ids: Annotated[list[Id], FailFast()]
    metrics: _Metrics

    @property
    def is_read(self) -> bool:
        """Whether a reader has opened files: not a writer that looks for the rows it is to change, nor an empty scan."""
        files = self.metrics.result_data_files
        return (files is None or files.value > 0) and FILE_COLUMN not in self.projected_field_ids


def table_of(uri: str) -> str | None:
    """The table whose reports go to an address, or None where none do.

    What stands before `v1` and behind it is the catalog's own. Levels of a namespace are divided by the character 31.
    """
    try:
        parts = urlsplit(uri).path.split("/")
    except ValueError:  # `//[/…`: a host that is none
        return None
    match parts:
        case [*before, "namespaces", namespace, "tables", table, "metrics"] if (
            "v1" in before and namespace and table
        ):
            return name_from((*unquote_plus(namespace).split("\x1f"), unquote_plus(table)))
        case _:
            return None


def answer(reports: ScanReports, table: str, body: bytes) -> tuple[HTTPStatus, bytes]:
    """Take a report of a table; gives the status and, where it was not taken, the error as the specification has it."""
    if not reports.has_room(len(body)):
        return _error(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequestsException", "more reports than are read")
    try:
        # First as it is, then checked: in one step, what is wrong with a large body would cost ten times as much.
        content = from_json(body, allow_inf_nan=False)
        kind = _Report.model_validate(content).report_type
        scan = _ScanReport.model_validate(content) if kind == SCAN else None
    except ValueError as err:
        reports.heard(Reported.REFUSED)
        return _error(HTTPStatus.BAD_REQUEST, "BadRequestException", f"no report: {_what_is_wrong(err)}")
    if scan is None or not scan.is_read:
        reports.heard(Reported.NO_SCAN)
    elif not reports.scanned(table):
        return _error(HTTPStatus.NOT_FOUND, "NoSuchTableException", "this daemon knows no such table")
    return HTTPStatus.NO_CONTENT, b""


def _what_is_wrong(err: ValueError) -> str:
    """In words of the specification's; nothing of what was sent is repeated."""
    if not isinstance(err, ValidationError):
        return "no JSON"
    first = err.errors(include_url=False, include_input=False, include_context=False)[0]
    return ": ".join([*map(str, first["loc"]), first["type"]])


def _error(status: HTTPStatus, kind: str, why: str) -> tuple[HTTPStatus, bytes]:
    return status, json.dumps({"error": {"message": why, "type": kind, "code": status}}).encode()
