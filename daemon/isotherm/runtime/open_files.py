"""How many files and connections this process may have open.

The soft limit of most systems, 1,024, is there for programs that call select(). We do not: each table whose keys a catalog
lends has connections of its own, and each rewrite files.
"""

import contextlib
import resource


def raise_limit() -> int:
    """Raise the soft limit to the hard one, for this process and those that it starts; gives what it is then."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS has limits that it does not take
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return limit()


def limit() -> int:
    """How many it may have open now."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
