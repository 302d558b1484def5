"""What the probes answer from."""

from dataclasses import dataclass

TICK_LIMIT_S = 300
"""A loop that has not turned for this long is stuck: /livez says so."""
SLOW_LIMIT_S = 60
"""A loop that has not turned for this long waits for something, and what it knows is old: /readyz says so."""


@dataclass(slots=True)
class Health:
    """What /livez and /readyz answer from; written by the loop, read by the HTTP threads."""

    ticked_at_s: float = 0
    has_policies: bool = False
    is_assigned: bool = False
    catalog_answers: bool = False

    def is_alive(self, now_s: float) -> bool:
        """Whether the loop has turned lately; Kafka or a catalog that is away is no reason for a restart."""
        return now_s - self.ticked_at_s < TICK_LIMIT_S

    def missing(self, now_s: float) -> list[str]:
        """What is not ready, in words."""
        stands_s = now_s - self.ticked_at_s
        states = {
            f"the loop has not turned for {stands_s:.0f} s": stands_s < SLOW_LIMIT_S,
            "no policy is loaded": self.has_policies,
            "the control topic is not assigned": self.is_assigned,
            "the catalog does not answer": self.catalog_answers,
        }
        return [what for what, fine in states.items() if not fine]
