"""Names and texts in DuckDB's SQL."""


def name_in_sql(name: str) -> str:
    """A name as DuckDB takes any name."""
    return '"' + name.replace('"', '""') + '"'


def literal_in_sql(text: str) -> str:
    """A text as DuckDB takes any text."""
    return "'" + text.replace("'", "''") + "'"
