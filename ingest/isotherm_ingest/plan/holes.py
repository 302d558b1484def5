"""Holes: changes that a table lacks, or may lack, and how they came to be missing."""

from dataclasses import dataclass
from enum import StrEnum

from isotherm_ingest.plan.topic_partition import Position


class Lost(StrEnum):
    """How changes came to be missing."""

    ROLLED_BACK = "table_rolled_back"
    """The table has less than it had: a rollback, or a restored backup."""
    MADE_AGAIN = "table_made_again"
    """Another table stands under the name, or none."""
    TOPIC_MADE_AGAIN = "topic_made_again"
    """Another topic stands under the name: its offsets are not those that the table speaks of."""
    RETENTION = "retention"
    """Kafka no longer holds what the table needs next."""
    CUT_BACK = "topic_cut_back"
    """Kafka lost its newest messages, which the table has or was still to get, and gives their offsets to others."""
    DAMAGED = "topic_damaged"
    """Kafka holds what the table needs next, and no client can unpack it."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Changes that the table lacks, or may lack."""

    why: Lost
    position: Position
    needs: int
    """The offset that the table would go on from."""
    resumes: int
    """The offset to go on from if the loss is accepted."""

    def __str__(self) -> str:
        topic, partition = self.position
        return f"{self.why} ({topic}/{partition}: needs {self.needs}, could go on from {self.resumes})"
