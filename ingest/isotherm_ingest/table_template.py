"""What a stream says of the tables that are made for it: how they are divided and sorted, and what they say of themselves.

A template that can make no table is refused when the file is read, as far as the file alone tells. A table that is there
keeps what it has.
"""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, field_validator

from isotherm.runtime.strict_model import StrictModel
from isotherm_ingest.partition_field import TIME_TRANSFORMS, PartitionBy, partition_by
from isotherm_ingest.sort_field import SortField, sort_field
from isotherm_ingest.tables.refused_properties import refused_property

FORMAT_VERSION = "format-version"
UNSORTED = ("ARRAY",)
NO_IDENTIFIERS = ("ARRAY", "FLOAT", "DOUBLE")
"""How types begin by which Iceberg sorts no table, and by which it knows no row."""
OWN_PROPERTIES = {
    FORMAT_VERSION: "2",
    # What Isotherm compacts to by default; Iceberg's own half a gigabyte is more than a stream fills in a day, mostly.
    "write.target-file-size-bytes": str(128 * 1024 * 1024),
    # Of those who write with Spark: with a sort order, its default would sort the rows of each statement through a sample.
    "write.distribution-mode": "hash",
    # A commit a minute leaves half a million versions a year, each with all snapshots that there are.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Of every table that is made."""
MIRROR_PROPERTIES = {
    **OWN_PROPERTIES,
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    # Not `snapshot`: two writers could insert the same key.
    "write.merge.isolation-level": "serializable",
    # At most one live delete file for a data file, rewritten as it grows; `partition` piles them up.
    "write.delete.granularity": "file",
}


class TableTemplate(StrictModel):
    """What tables are made of."""

    partition_by: tuple[str, ...] = ()
    """Partition spec of a table that is made: `hours(c)`, `days(c)`, `bucket(16, c)`, …"""
    sort_by: tuple[str, ...] = ()
    """Sort order of a table that is made: `region`, `at desc nulls last`, … Compaction and Spark write by it, and so does
    ingest in a changelog; the files that it writes to a mirror are sorted by the key."""
    identifier_fields: bool = False
    """Whether the key of a mirror becomes the identifier fields of a table that is made, which Flink and others read. Its
    columns are required then. The daemon moves no partition of such a table to another spec (docs/policies.md)."""
    format_version: Literal[2, 3] | None = None
    """Iceberg's format version of a table that is made. Default: 2. With 3, deletes are vectors, and rows have ids; not every
    engine reads it yet."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Table properties for a table that is made; they win over ingest's own."""

    @field_validator("partition_by")
    @classmethod
    def _fields_of_a_spec(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        met: dict[str, str] = {}
        for text in value:
            field = partition_by(text)
            # As Iceberg has it: one field of a name, and one by time of each column.
            said = [field.field_name.lower()]
            if field.transform in TIME_TRANSFORMS:
                said.append(f"time of {field.column.lower()}")
            if clash := [met[one] for one in said if one in met]:
                raise ValueError(f"{clash[0]!r} and {text!r} cannot stand in one spec")
            met.update(dict.fromkeys(said, text))
        return value

    @field_validator("sort_by")
    @classmethod
    def _fields_of_an_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        columns = [sort_field(text).column.lower() for text in value]
        if twice := sorted({one for one in columns if columns.count(one) > 1}):
            raise ValueError(f"has the column {twice[0]!r} twice")
        return value

    @field_validator("properties")
    @classmethod
    def _properties_of_a_table(cls, value: dict[str, str]) -> dict[str, str]:
        if why := refused_property(value):
            raise ValueError(f"ingest would not write the table, because it {why}")
        if value.get(FORMAT_VERSION, "2") not in {"2", "3"}:
            raise ValueError(
                f"`{FORMAT_VERSION}` is {value[FORMAT_VERSION]!r}: ingest makes tables of 2 and 3"
            )
        return value

    def check_template(self, mode: str, names: Iterable[str]) -> None:
        """Check what of a template contradicts itself, or the rest of its stream.

        Args:
            mode: of the stream.
            names: that the source has, in lower case, for columns that the table calls otherwise.

        Raises:
            ValueError: no table can be made by it.
        """
        said = self.properties.get(FORMAT_VERSION)
        if self.format_version is not None and said not in {None, str(self.format_version)}:
            raise ValueError(
                f"`format_version` is {self.format_version}, and `properties` says {FORMAT_VERSION} {said}: say it once"
            )
        if self.identifier_fields and mode != "mirror":
            raise ValueError("`identifier_fields` is of a mirror: a changelog has many rows of one key")
        called = frozenset(names)
        named = {
            "partition_by": [one.column for one in self.spec],
            "sort_by": self.sorted_columns,
        }
        for option, columns in named.items():
            if wrong := sorted(column for column in columns if column.lower() in called):
                raise ValueError(
                    f"`{option}` names {wrong[0]!r}, which `names` has for the source of another column: say the table's"
                )

    @property
    def spec(self) -> tuple[PartitionBy, ...]:
        """The partition spec, taken apart."""
        return tuple(partition_by(text) for text in self.partition_by)

    @property
    def sort_order(self) -> tuple[SortField, ...]:
        """The sort order, taken apart."""
        return tuple(sort_field(text) for text in self.sort_by)

    @property
    def sorted_columns(self) -> list[str]:
        """The columns of the sort order."""
        return [one.column for one in self.sort_order]

    def properties_of(self, mode: str) -> dict[str, str]:
        """Properties of a table that is made for a stream of some mode."""
        own = MIRROR_PROPERTIES if mode == "mirror" else OWN_PROPERTIES
        version = {} if self.format_version is None else {FORMAT_VERSION: str(self.format_version)}
        return {**own, **version, **self.properties}
