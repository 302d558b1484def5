"""One policy file: whether it is one, and what it says."""

import os

from isotherm.core.policy.precedence import PolicyFile
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import parse_yaml

MAX_FILE_BYTES = 100_000
"""No policy is larger; what is, is not read."""
MAX_VALUES = 10_000
"""In one file; a file of MAX_FILE_BYTES has so many only where each of them is a few letters."""


def is_policy(name: str) -> bool:
    """Whether a file with this name is read."""
    # Editors leave hidden files beside the one that they write (`.#shop.yaml`).
    return name.endswith((".yaml", ".yml")) and not name.startswith(".")


def decoded_name(name: str) -> str:
    """A file name as text, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def judged(text: str, name: str) -> PolicyFile:
    """A policy file, judged. Whatever goes wrong is a complaint about this file, also a mistake of ours.

    Raises:
        ConfigError: something is wrong with it.
    """
    try:
        return parse_yaml(text, name, PolicyFile, max_values=MAX_VALUES)
    except ConfigError:
        raise
    except Exception as err:
        raise ConfigError(f"{name}: cannot be judged: {type(err).__name__}: {str(err)[:200]}") from err


def text_of(name: str, data: bytes) -> str:
    """What a file holds. Raises ConfigError where it is no text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise ConfigError(f"{name}: not UTF-8: byte {err.start + 1}") from err
