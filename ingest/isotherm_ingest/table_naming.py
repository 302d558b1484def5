"""What a stream says of the names of its tables, and how it is found out where a message goes."""

import re
from collections.abc import Collection
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from isotherm.runtime.strict_model import StrictModel
from isotherm_ingest.name_template import PLACEHOLDER, SOURCE_PARTS, field_in, fields_of, unknown_part
from isotherm_ingest.partition_field import NAME

BOTH = "changelog + mirror"
"""A `mode`: of each message both."""


class TableNaming(StrictModel):
    """How tables are called."""

    table: str
    """Name of the table, `namespace.table`; `{table}` and `{schema}` come from the change's source, `{topic}` is the topic.
    `{field:region}` is what a row says in its field `region`: each of its values has a table."""
    changelog_table: str = ""
    """Of a mirror: the name of a changelog that is written beside it, from the same messages. Default: none, or with
    `mode: changelog + mirror` the name of the mirror and `_changes`."""
    routed_by: Literal["schema", "source"] = "schema"
    """How `{table}` and `{schema}` are found out: from one message of each `schema`, or from the `source` of each message,
    where changes of several tables that look alike come in one topic. It costs reading each message once more. With
    `{field:…}` in `table` each message is read anyway."""
    tables_at_most: int = Field(1000, ge=1, le=2000)
    """Where each message is read for its table: so many tables are made at most. What further ones would have are dead
    letters, which an id in place of a region would bring by the million."""

    @model_validator(mode="before")
    @classmethod
    def _both(cls, data: Any) -> Any:
        """`changelog + mirror` is a mirror with a changelog beside it."""
        if not isinstance(data, dict) or data.get("mode") != BOTH:
            return data
        return {"changelog_table": f"{data.get('table')}_changes", **data, "mode": "mirror"}

    @field_validator("table", "changelog_table")
    @classmethod
    def _template(cls, value: str) -> str:
        if not value:  # of a changelog table: none
            return value
        if (unknown := unknown_part(value)) is not None:
            raise ValueError(
                f"{{{unknown}}} is not known; known: {{table}}, {{schema}}, {{topic}}, {{field:name_of_a_field}}"
            )
        plain = PLACEHOLDER.sub("x", value)
        if not re.fullmatch(rf"{NAME}(\.{NAME})+", plain):
            raise ValueError(f"{value!r} is no `namespace.table`")
        return value

    def check_beside(self, mode: str) -> None:
        """Check that a changelog beside a mirror is one. Raises ValueError."""
        if not self.changelog_table:
            return
        if mode != "mirror":
            raise ValueError("`changelog_table` is of a mirror: a changelog is one by itself")
        if self.changelog_table == self.table:
            raise ValueError("`changelog_table` has the name of the mirror")
        if self.is_routed or fields_of(self.changelog_table):
            raise ValueError("`changelog_table` is not for streams whose messages are read for their table")

    def check_naming(self, declared: Collection[str]) -> None:
        """Check that what a name asks for is there, of the columns that are declared, if any. Raises ValueError."""
        if self.routed_by == "source" and not self.source_parts:
            raise ValueError("`routed_by: source` needs {table} or {schema} in `table`")
        if not self.is_routed and "tables_at_most" in self.model_fields_set:
            raise ValueError(
                "`tables_at_most` is for a `table` with {field:…}, or with what `routed_by: source` finds out"
            )
        if gone := [one for one in self.fields if declared and one not in declared]:
            raise ValueError(f"`table` names the field {gone[0]!r}, which is none of `columns`")

    def check_fields(self, key: Collection[str]) -> None:
        """Check that a row can only leave its table by a change of its key, which has these fields. Raises ValueError."""
        folded = {one.lower() for one in key}
        if outside := [one for one in self.fields if one.lower() not in folded]:
            raise ValueError(
                f"`table` names the field {outside[0]!r}, which is not in `key`: a row whose value changes would have to leave "
                "another table"
            )

    @property
    def is_named_for_source(self) -> bool:
        """Whether the table's name says where its rows come from."""
        return any(field_in(one) is None for one in PLACEHOLDER.findall(self.table))

    @property
    def source_parts(self) -> frozenset[str]:
        """Of the name of a change's source, what the table's name depends on."""
        return SOURCE_PARTS & frozenset(PLACEHOLDER.findall(self.table))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of its rows that the table's name depends on."""
        return fields_of(self.table)

    @property
    def is_routed(self) -> bool:
        """Whether each message is read for where it goes, and not one of those that look like it."""
        return bool(self.fields) or self.routed_by == "source"
