"""How many examples a law is tried on, where that is not hypothesis's hundred."""

from hypothesis import settings


def examples(count: int) -> settings:
    """`count` of them in `make test`; `make quick` plays a part of that (its profile is in tests/conftest.py)."""
    return settings(max_examples=max(1, count * settings().max_examples // 100))
