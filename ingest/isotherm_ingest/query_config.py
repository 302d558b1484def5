"""What `streams.yaml` says of a table that is a query over others."""

import re
from collections.abc import Callable, Mapping
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from isotherm.runtime.strict_model import StrictModel
from isotherm_ingest.partition_field import NAME, PartitionBy, partition_by
from isotherm_ingest.span import Span

ENDS = re.compile(rf"\{{(first|last):({NAME})\}}")
"""`{first:minute}` and `{last:minute}` in the SQL of a query."""
_TABLE = re.compile(rf"{NAME}(\.{NAME})+")


class Emit(StrictModel):
    """Rows of a query go to a topic of Kafka too: at least once, each with an id that stays the same when it is sent again."""

    topic: str = Field(min_length=1)
    """Made with one partition where it is missing. The message's key is the row's key, its value the row, both as JSON; the
    value of a row that is gone is null."""
    when: Literal["changed", "final"] = "changed"
    """`changed`: each row that is computed, at once. `final`: rows whose `time` lies `after` behind what the sources have
    reached, once; one that changes later is sent again."""
    time: str = ""
    """Of `final`: the column of the result that says when a row is over, such as the end of its window."""
    after: Span = "1m"
    """Of `final`: how late what belongs to a row may come."""

    @model_validator(mode="after")
    def _has_its_time(self) -> Self:
        if (self.when == "final") != bool(self.time):
            raise ValueError(
                "`when: final` needs `time`, the column that says when a row is over, and nothing else does"
            )
        return self


class Query(StrictModel):
    """One table that SQL computes from others. What a change touches is computed anew, and written by key."""

    table: str
    """Name of the table, `namespace.table`."""
    key: tuple[str, ...] = Field(min_length=1)
    """Columns of the result that tell its rows apart."""
    sql: str
    """A query in Spark's SQL over tables of the catalog, as they are then. `{first:c}` and `{last:c}` stand for the least and
    the greatest value of a key's column among the rows that are computed: say them where less is to be read."""
    changes: dict[str, str] = Field(min_length=1)
    """By changelog, a query over its new rows (`changes`) that gives the keys of the result's rows that they touch."""
    partition_by: tuple[str, ...] = ()
    """Partition spec of the table that is made."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Table properties of the table that is made; they win over ingest's own."""
    emit: Emit | None = None
    """Where rows go beside the table. Default: nowhere."""
    every: Span | None = None
    """How often it is looked whether something has changed. Default: the pipeline's."""

    @field_validator("table")
    @classmethod
    def _is_name(cls, value: str) -> str:
        if not _TABLE.fullmatch(value):
            raise ValueError(f"{value!r} is no `namespace.table`")
        return value

    @field_validator("changes")
    @classmethod
    def _are_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            cls._is_name(name)
        return value

    @field_validator("sql")
    @classmethod
    def _is_query(cls, value: str) -> str:
        if not value.strip(" \n\t;"):
            raise ValueError("`sql` is empty")
        return value.strip(" \n\t;")

    @model_validator(mode="after")
    def _has_what_it_names(self) -> Self:
        folded = [name.lower() for name in self.key]
        if len(set(folded)) < len(folded):
            raise ValueError("`key` has a column twice")
        for _, name in ENDS.findall(self.sql):
            if name not in self.key:
                raise ValueError(f"`sql` asks for the ends of {name!r}, which is none of `key`")
        if self.table in self.changes:
            raise ValueError(f"{self.table!r} cannot be computed from its own changes")
        for text in self.partition_by:
            partition_by(text)
        return self

    @property
    def spec(self) -> tuple[PartitionBy, ...]:
        """The partition spec, taken apart."""
        return tuple(partition_by(text) for text in self.partition_by)

    def sql_for(self, end: Callable[[str, str], str]) -> str:
        """The SQL, with something in the place of each end.

        Args:
            end: gives SQL for `first` or `last` of a column.
        """
        return ENDS.sub(lambda found: end(found[1], found[2]), self.sql)

    @property
    def text(self) -> Mapping[str, object]:
        """All that the rows depend on."""
        return {"key": self.key, "sql": self.sql, "changes": dict(sorted(self.changes.items()))}
