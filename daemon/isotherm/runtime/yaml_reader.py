"""How any YAML file of ours is read: once, into a frozen model that refuses what it does not know.

What a bad file is told is worded in `validation_errors`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.validation_errors import complaints, locate, shown

MAX_FILE_BYTES = 1_000_000
"""No configuration is larger; what is, is not read."""

MAX_DEPTH = 50
"""No file of ours is nested so deeply, and the reader takes the longer for each level."""


Model = TypeVar("Model", bound=BaseModel)


class _SafeLoader(yaml.SafeLoader):
    """Safe YAML with what a configuration needs, and no more.

    Plain words are read as YAML 1.2 reads them: `off` and `no` are words, `2026-01-01` and `12:30` are text. Aliases
    are refused (a file of ours needs none, and ten lines of them can fill the memory). So are tags (`!!timestamp x`),
    because a value that is not of its type can fail in any way. Whatever else could surprise a model is refused too:
    keys that are no words, keys that stand twice, half characters.
    """

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (declared so by PyYAML)
    max_values: int | None = None
    """PyYAML takes some 20 µs for each value, and a file of 100 kB can hold 50,000."""
    _values = 0
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not allowed", problem_mark=event.start_mark
            )
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if event.tag is not None:
            # Not which: a password that begins with `!` is a tag for YAML.
            raise yaml.MarkedYAMLError(problem=_NO_TAGS, problem_mark=event.start_mark)
        self._values += 1
        if self.max_values is not None and self._values > self.max_values:
            problem = f"more than {self.max_values} values; divide the file"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        if self._depth >= MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError) as err:
            # A number of 5,000 digits. Not what it says: it may be a password.
            raise yaml.MarkedYAMLError(problem="no value of its type", problem_mark=node.start_mark) from err

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and _HALF_CHARACTER.search(value):
            raise yaml.MarkedYAMLError(
                problem="half of a character (a lone surrogate)", problem_mark=node.start_mark
            )
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float):
                raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key {shown(key)} stands twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_NO_TAGS = "tags (!name) are not allowed: quote a text that begins with !"
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")

for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _SafeLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values from the environment, which win over what a file says."""

    prefix: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Nested, as in the file."""

    def variable(self, path: tuple[str | int, ...]) -> str | None:
        """The name of the variable that says what stands at a path, or None where the file says it."""
        place: Any = self.values
        for depth, step in enumerate(path, start=1):
            if not isinstance(place, Mapping) or step not in place:
                return None
            place = place[step]
            if not isinstance(place, Mapping):
                return self.prefix + "__".join(map(str, path[:depth])).upper()
        return None


def read_yaml(path: Path, model: type[Model], overrides: Overrides | None = None) -> Model:
    """The file as a validated model; `overrides` win over what it says.

    Raises:
        ConfigError: the file is missing, no YAML, or says what the model does not allow.
    """
    return parse_yaml(read_text(path), str(path), model, overrides)


def parse_yaml(
    text: str,
    name: str,
    model: type[Model],
    overrides: Overrides | None = None,
    *,
    max_values: int | None = None,
) -> Model:
    """Like `read_yaml`, from text; `name` is what complaints call it. A file with more values is refused."""
    try:
        loader = _SafeLoader(text)
        loader.max_values = max_values
        try:
            node = loader.get_single_node()
            data = {} if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        # The parser repeats a tag of which it does not know the handle.
        problem = _NO_TAGS if "tag handle" in str(err.problem) else err.problem
        raise ConfigError(f"{place}: {problem}") from err
    except (yaml.YAMLError, ValueError, OverflowError) as err:
        # ValueError: the scanner on an escape such as "\\U00110000".
        raise ConfigError(f"{name}: not YAML: {str(err).splitlines()[0]}") from err
    if not isinstance(data, dict):
        raise ConfigError(f"{name}:1:1: expected `key: value` lines")
    overrides = overrides or Overrides()
    try:
        return model.model_validate(_merged(data, overrides.values))
    except ValidationError as err:
        raise ConfigError("\n".join(complaints(name, node, model, err, overrides.variable))) from err


def read_text(path: Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """A file of ours, whole.

    Raises:
        ConfigError: it is missing, too large, no text, or cannot be read.
    """
    try:
        if not path.is_file() and path.exists():
            raise ConfigError(f"{path}: is no file")
        if path.stat().st_size > max_bytes:
            raise ConfigError(f"{path}: larger than {max_bytes} bytes; not read")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as err:
        raise ConfigError(f"{path}: no such file") from err
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigError(f"{path}: cannot be read: {err}") from err


def line_of(text: str, path: tuple[str | int, ...]) -> int:
    """The line, from 1, at which a part of a good file stands: `("tests", 2)`."""
    return locate(_composed(text), path)[0]


@lru_cache(maxsize=1)
def _composed(text: str) -> Any:
    """The nodes of a good file: each of its three hundred tests is asked for its line."""
    loader = _SafeLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _merged(data: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(data)
    for key, value in overrides.items():
        below = merged.get(key)
        merged[key] = (
            _merged(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
        )
    return merged


def environment_overrides(prefix: str, environ: Mapping[str, str]) -> Overrides:
    """`PREFIX_HTTP__PORT=0` as `{"http": {"port": 0}}`; names without two underscores are left to others."""
    overrides: dict[str, Any] = {}
    for name, value in environ.items():
        if not name.startswith(prefix) or "__" not in name:
            continue
        *parents, last = name.removeprefix(prefix).lower().split("__")
        place = overrides
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = _plain_value(name, value)
    return Overrides(prefix, overrides)


def _plain_value(name: str, text: str) -> Any:
    """What an environment variable says, read like a value in a file."""
    try:
        return yaml.load(text, _SafeLoader)  # noqa: S506 (a safe loader of our own)
    except (yaml.YAMLError, ValueError, OverflowError) as err:
        raise ConfigError(f"environment variable {name}: not YAML; what it says is not shown") from err
