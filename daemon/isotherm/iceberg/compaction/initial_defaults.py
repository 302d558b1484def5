"""What rows have in a column that their file lacks: its `initial-default`.

By the specification only format 3 has them. PyIceberg adds them to format 2 too, and readers read them there.
"""

from datetime import date, datetime, time
from typing import Any

from pyiceberg.types import NestedField
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros


def initial_default(column: NestedField) -> Any:
    """The value as manifests hold values, or None where rows have none."""
    match column.initial_default:
        case datetime() as value:
            return datetime_to_micros(value)
        case date() as value:
            return date_to_days(value)
        case time() as value:
            return time_to_micros(value)
        case value:
            return value
