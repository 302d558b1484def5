"""Clients of librdkafka, which judges its properties when one is made: both halves refuse bad ones in the same words."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from isotherm.runtime.strict_model import ConfigError

Client = TypeVar("Client")


class PropertyError(ConfigError):
    """Properties that the library does not take. The text names the property; whoever read the file adds its name."""


def kafka_client(make: Callable[[dict[str, Any]], Client], properties: Mapping[str, Any]) -> Client:
    """A client of librdkafka.

    Args:
        make: the client's class.
        properties: its properties.

    Raises:
        PropertyError: it does not take them. Their values are not repeated, because one may be a secret.
    """
    try:
        return make(dict(properties))
    except Exception as err:
        cause = err.args[0] if err.args else err
        why = (cause.str() if hasattr(cause, "str") else str(cause)).strip()
        for value in properties.values():
            why = why.replace(f'"{value}" ', "")
        raise PropertyError(f"kafka.properties: {why}") from err
