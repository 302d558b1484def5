"""What systemd is told, where it has started us: that we are ready, that we still turn, and that we stop.

It is told by a datagram to the socket that it names (sd_notify(3)). Without one nothing is told, and the watch goes on all
the same: a process that hangs says where.
"""

import contextlib
import faulthandler
import socket
from collections.abc import Callable, Mapping
from threading import Event, Thread

LOOKS_EVERY_S = 30.0
"""So often the watch looks at most; half of what systemd waits for, where that is shorter."""


TOLD_WITHIN_S = 1.0
"""Its queue may be full for a moment, while a machine starts."""


class Supervisor:
    """The one who has started this process, if it is one that listens."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Nothing is told yet.

        Args:
            environ: the environment, of which `NOTIFY_SOCKET` and `WATCHDOG_USEC` count.
        """
        named = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{named[1:]}" if named.startswith("@") else named
        waits = environ.get("WATCHDOG_USEC", "")
        asked_s = int(waits) / 2_000_000 if waits.isdecimal() else 0.0
        self.every_s = min(asked_s, LOOKS_EVERY_S) if asked_s else LOOKS_EVERY_S

    def tell(self, state: str) -> None:
        """Tell it something, such as `READY=1`. Who cannot be told is not waited for."""
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.settimeout(TOLD_WITHIN_S)
            to.sendto(state.encode(), self._address)

    def watch(self, is_alive: Callable[[], bool], on_hang: Callable[[], None], ended: Event) -> None:
        """Tell it that we live, for as long as that is so, until the end; once we hang, say where. Returns at once."""

        def look() -> None:
            was_alive = True
            while not ended.wait(self.every_s):
                if is_now := is_alive():
                    self.tell("READY=1\nWATCHDOG=1")  # the first may have found the queue full
                elif was_alive:
                    on_hang()
                    faulthandler.dump_traceback()
                was_alive = is_now
            self.tell("STOPPING=1")

        Thread(target=look, name="isotherm-watch", daemon=True).start()
