"""One field of a partition spec, as `streams.yaml` says it."""

import re

from isotherm.runtime.strict_model import StrictModel

TIME_TRANSFORMS = ("years", "months", "days", "hours")
_FIELD_ENDS = {
    "years": "_year",
    "months": "_month",
    "days": "_day",
    "hours": "_hour",
    "bucket": "_bucket",
    "truncate": "_trunc",
}
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PARTITION_FIELD = re.compile(
    rf"(?:(?P<time>{'|'.join(TIME_TRANSFORMS)})\((?P<time_column>{NAME})\)"
    rf"|(?P<sized>bucket|truncate)\(\s*(?P<size>[1-9]\d{{0,8}})\s*,\s*(?P<sized_column>{NAME})\s*\)"
    rf"|(?P<column>{NAME}))"
)


class PartitionBy(StrictModel):
    """One field of a partition spec, taken apart."""

    text: str
    """As Spark's DDL takes it: `hours(order_time)`."""
    column: str
    transform: str

    @property
    def field_name(self) -> str:
        """What Iceberg calls the field in the spec of a table that is made."""
        return self.column + _FIELD_ENDS.get(self.transform, "")


def partition_by(text: str) -> PartitionBy:
    """Take `hours(order_time)`, `bucket(16, id)` or `region` apart.

    Raises:
        ValueError: it is none of those.
    """
    match = _PARTITION_FIELD.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is no partition field; known: years(c), months(c), days(c), hours(c), bucket(n, c), truncate(n, c), c"
        )
    column = match["time_column"] or match["sized_column"] or match["column"]
    return PartitionBy(
        text=text.strip(), column=column, transform=match["time"] or match["sized"] or "identity"
    )
