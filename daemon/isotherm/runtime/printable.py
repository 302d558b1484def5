"""Text that somebody else chose, made harmless for a terminal. Logs and commands share it."""


def printable(text: str, kept: str = "") -> str:
    """Spell out the control characters of a text, except those in `kept`, so that they do nothing to a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)
