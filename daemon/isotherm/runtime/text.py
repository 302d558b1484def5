"""Text for people, as logs, the ledger, commands and the audit write it."""


def counted(number: int, noun: str) -> str:
    """A number of things: `1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str, kept: str = "") -> str:
    """Spell out the control characters of a text, except those in `kept`, so that they do nothing to a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)
