"""What the daemon says of itself at its port, where it runs: `/tables`."""

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

from isotherm.runtime.config import IsothermConfig

ANSWERS_WITHIN_S = 2.0
MOST_BYTES = 16 * 1024**2
"""Another program may listen there."""
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 (asked, not bound)
"""Where one asks a daemon that listens at all addresses of its machine."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What it said, or why there is no answer."""

    at: str
    said: dict[str, Any] = field(default_factory=dict)
    why_not: str = ""


def ask_daemon(config: IsothermConfig, timeout_s: float = ANSWERS_WITHIN_S) -> Answer:
    """Ask the daemon of a configuration, on this machine or wherever `http.host` is."""
    host, port = EVERYWHERE.get(config.http.host, config.http.host), config.http.port
    at = f"http://{host}:{port}/tables"
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", "/tables")
        answer = connection.getresponse()
        body = answer.read(MOST_BYTES)
        if answer.status != 200:
            return Answer(
                at, why_not=f"it answers {answer.status}: {body[:100].decode(errors='replace').strip()}"
            )
        said = json.loads(body)
    except (OSError, HTTPException, ValueError) as err:
        return Answer(at, why_not=str(err) or type(err).__name__)
    finally:
        connection.close()
    if not isinstance(said, dict) or "tables_here" not in said:
        return Answer(at, why_not="that is no daemon of this version")
    return Answer(at, said)
