"""/metrics, /livez and /readyz of the driver. No orders, no secrets, loopback by default.

/livez: the driver and its outbox have come around lately, or wait for what is away; only what hangs is to be started
again. Where it hangs is logged when that is first said.
/readyz: its last turn went well; else 503 with what is missing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from isotherm.runtime import http_server, logs
from isotherm.runtime.clock import monotonic_s
from isotherm_ingest.threads import whereabouts

HANGS_AFTER_S = 1_800.0
"""A turn is one batch of the front and one slice of what is behind: minutes at most, where nothing hangs."""


@dataclass
class Health:
    """What the driver says of itself; read by other threads."""

    turned_s: float
    trouble: str = "not begun yet"
    outbox_turned_s: Callable[[], float] = lambda: math.inf
    """When the outbox came around, once there is one."""
    is_told: bool = False
    """That something hangs, and where, since it was last asked for and nothing did."""

    def turned(self, now_s: float, trouble: str = "") -> None:
        """A turn is over, or something is waited for."""
        self.turned_s, self.trouble = now_s, trouble

    def why_dead(self, now_s: float) -> str:
        """Why the driver is to be started again, or nothing. Where it hangs is logged once."""
        turns = (
            ("driver", "driver_hangs", self.turned_s),
            ("outbox", "outbox_hangs", self.outbox_turned_s()),
        )
        for what, event, turned_s in turns:
            if now_s - turned_s >= HANGS_AFTER_S:
                if not self.is_told:
                    self.is_told = True
                    logs.get().error(event, for_s=round(now_s - turned_s), threads=whereabouts())
                return f"the {what} hangs"
        self.is_told = False
        return ""


def serve(registry: CollectorRegistry, health: Health, host: str, port: int) -> int:
    """Serve for as long as the process lives; gives the port, which matters where 0 was asked for.

    Raises:
        OSError: the address is not free.
    """
    return http_server.serve(host, port, registry, probes(health))


def probes(health: Health, clock_s: Callable[[], float] = monotonic_s) -> http_server.Probes:
    """What is wrong with the driver, by path."""
    return {"/livez": lambda: health.why_dead(clock_s()), "/readyz": lambda: health.trouble}
