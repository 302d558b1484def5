"""What the probes and /tables answer from."""

from dataclasses import dataclass

TICK_LIMIT_S = 300
"""A loop that has not turned for this long is stuck: /livez says so."""
SLOW_LIMIT_S = 60
"""A loop that has not turned for this long waits for something, and what it knows is old: /readyz says so."""


@dataclass(slots=True)
class Health:
    """What /livez and /readyz answer from; written by the loop, read by the HTTP threads."""

    ticked_at_s: float = 0
    waits_for: str = ""
    """What the start waits for. Nothing behind it was asked for yet, so nothing else is blamed."""
    has_policies: bool | None = None
    is_assigned: bool | None = None
    catalog_answers: bool | None = None
    """Each of these is None before anybody has asked."""
    tables: frozenset[str] = frozenset()
    """Those of this daemon, by name, as the last round found them."""
    elsewhere: frozenset[str] = frozenset()
    """Those that another daemon of the group has, as far as this one has seen them."""
    behind: int = 0
    """Messages of the control topic that were there at the end of the last round and are not taken in yet."""

    def is_alive(self, now_s: float) -> bool:
        """Whether the loop has turned lately; Kafka or a catalog that is away is no reason for a restart."""
        return now_s - self.ticked_at_s < TICK_LIMIT_S

    def missing(self, now_s: float) -> list[str]:
        """What is not ready, in words."""
        stands_s = now_s - self.ticked_at_s
        said = [f"the loop has not turned for {stands_s:.0f} s"] if stands_s >= SLOW_LIMIT_S else []
        if self.waits_for:
            return [*said, f"the start waits for {self.waits_for}"]
        for state, wrong, unasked in (
            (self.has_policies, "no policy is loaded", "the policies were not read yet"),
            (self.is_assigned, "the control topic is not assigned", "the control topic was not read yet"),
            (self.catalog_answers, "the catalog does not answer", "the catalog was not asked yet"),
        ):
            if not state:
                said.append(unasked if state is None else wrong)
        return said
