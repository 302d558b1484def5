"""Names and texts as Spark's SQL takes any of them: quoted, so that no name can end a statement."""


def quoted(name: str) -> str:
    """A name as Spark's SQL takes any name."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as Spark's SQL takes any text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
