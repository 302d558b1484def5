"""What the daemon needs of the world."""

from enum import StrEnum


class Outside(StrEnum):
    """One of the things, as metrics and alerts name it."""

    BROKER = "broker"
    CATALOG = "catalog"
    CODE = "code"
    """The daemon's own, where rewrites are started from: without it none begins."""
    CONTROL_END = "control_end"
    """The end of the control topic: without it nothing is compacted."""
    CONSENT = "consent"
    """What the broker must take before a commit (our place in the group, the count of acts): without it nothing begins."""
    HOLDS = "holds"
    """The topic with halts, pauses and quarantines: without it nothing begins."""
    SOURCES = "sources"
    STATE = "state"
    """The folder with the daemon's own stores."""
    STORAGE = "storage"
    TABLE = "table"
    """One table, for whatever reason."""
