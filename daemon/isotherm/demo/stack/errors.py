"""What goes wrong with the local stack."""


class StackError(Exception):
    """A part of the stack cannot run; the text names the part and the remedy, or the end of its log."""
