"""How much memory the process of a job may take: a limit on its address space, which its engines ask for."""

import contextlib
import resource

RESERVED_BYTES = 2 * 1024**3
"""Address space that Python and its libraries reserve and never fill."""


def limit_memory(memory_bytes: int) -> None:
    """Have this process take no more. A limit of the machine's own may be lower: it stays."""
    limit = memory_bytes + RESERVED_BYTES
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def allowed_bytes() -> int | None:
    """What this process may take, or None where nobody limits it."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if allowed == resource.RLIM_INFINITY else allowed - RESERVED_BYTES
