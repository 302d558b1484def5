"""What a daemon says that runs with this configuration on this machine: is it ready, and its metrics."""

import http.client
from collections.abc import Iterator

from isotherm.commands.doctor.checks import Check, Finding, unknown, well, wrong
from isotherm.runtime.config import HttpConfig

TIMEOUT_S = 5.0
MOST_BYTES = 32 * 1024**2
"""Of an answer: ten thousand tables have some twenty megabytes of metrics."""
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 (nothing is bound here)


def check(config: HttpConfig) -> Check:
    """Whether a daemon is ready, if one answers."""
    return Check("daemon", lambda: readiness(config), "what /readyz says is in docs/operations.md")


def readiness(config: HttpConfig) -> Iterator[Finding]:
    """What /readyz says."""
    if config.port == 0:
        yield unknown("http.port is 0: only the log of a daemon says where it listens")
        return
    answer = asked(config, "/readyz")
    if answer is None:
        yield unknown(f"none answers at {_host(config)}:{config.port}")
        return
    status, text = answer
    said = " ".join(text.split())[:500]
    if status == http.client.OK:
        yield well(f"one answers at {_host(config)}:{config.port}, and is ready")
    else:
        yield wrong(f"one answers at {_host(config)}:{config.port}: {status} {said}", "")


def asked(config: HttpConfig, path: str) -> tuple[int, str] | None:
    """Status and text of an answer, or None where nobody answers."""
    connection = http.client.HTTPConnection(_host(config), config.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(MOST_BYTES).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _host(config: HttpConfig) -> str:
    return "127.0.0.1" if config.host in EVERYWHERE else config.host
