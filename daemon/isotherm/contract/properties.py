"""Properties of tables, read as Iceberg's Java library reads them: whoever else writes the table goes by that."""

from collections.abc import Mapping


def says(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Whether a property is true. Of all words only `true` is; PyIceberg's own reader raises where it is another one."""
    return properties.get(name, str(default)).lower() == "true"
