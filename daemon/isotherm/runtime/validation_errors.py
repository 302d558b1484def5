"""What a bad policy or configuration file is told: one line for each mistake.

Every complaint names file, line and column, and the nearest name that would have been right.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from isotherm.runtime.strict_model import Properties

Path = tuple[str | int, ...]
"""Where something stands: `("loop", "plan_every_s")`."""
MAX_COMPLAINTS = 20
"""A file with more mistakes than this is another kind of file; the rest is counted."""

MAX_SHOWN = 80
"""Characters of a key or value that a complaint repeats."""

_SECRET = re.compile(r"^properties$|passw|secret|token|credential|key", re.IGNORECASE)
"""Names of what may be secret; all of a client's properties are."""


def complaints(
    name: str,
    root: yaml.Node | None,
    model: type[BaseModel],
    err: ValidationError,
    variable: Callable[[Path], str | None] = lambda _: None,
) -> Iterator[str]:
    """What a model does not allow of the file of this name, and where in it, or in which variable, that stands."""
    errors = err.errors(include_url=False)
    for error in errors[:MAX_COMPLAINTS]:
        yield _complaint(name, root, model, error, variable)
    if len(errors) > MAX_COMPLAINTS:
        yield f"{name}: … and {len(errors) - MAX_COMPLAINTS} more"


def _complaint(
    name: str,
    root: yaml.Node | None,
    model: type[BaseModel],
    error: Any,
    variable: Callable[[Path], str | None],
) -> str:
    """One line: where, what is wrong, and what would be right."""
    path = tuple(step for step in error["loc"] if isinstance(step, str | int))
    line, column, matched = locate(root, path)
    said_by = variable(path)
    place = f"{name}:{line}:{column}" if said_by is None else f"environment variable {said_by}"
    where = ".".join(str(step) for step in path)
    text = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = _known_keys(model, path[:-1])
        near = difflib.get_close_matches(str(path[-1])[:MAX_SHOWN], known, n=1, cutoff=0.6)
        text = (
            f"unknown key; did you mean `{near[0]}`?" if near else f"unknown key; known: {', '.join(known)}"
        )
    elif error["type"] in {"model_type", "model_attributes_type"}:
        text = f"a section is expected here, with keys of its own: {', '.join(_known_keys(model, path))}"
    elif error["type"] in {"tuple_type", "list_type"}:
        text = "a list is expected here"
    elif error["type"] == "missing":
        where, text = ".".join(map(str, path)), "is missing"
    elif (
        matched == len(path)
        and said_by is None
        and isinstance(error.get("input"), str | int | float | bool)
        and not _is_secret(model, path)
    ):
        text = f"{text} (it says {shown(error['input'])})"
    return f"{place}: {_cut(where) + ': ' if where else ''}{text}"


def _is_secret(model: type[BaseModel], path: Path) -> bool:
    """Whether a value may be a password, which a complaint must not repeat: complaints are logged, and sent around."""
    return model is Properties or any(_SECRET.search(str(step)) for step in path)


def shown(value: Any) -> str:
    """A key or a value in a complaint: never a whole page of it."""
    try:
        return _cut(repr(value))
    except ValueError:  # an integer of more digits than Python writes
        return "a very large number"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def locate(root: yaml.Node | None, path: Path) -> tuple[int, int, int]:
    """Line and column (from 1) of the deepest part of the path that stands in the file, and its depth."""
    node, mark, depth = root, root.start_mark if root else None, 0
    for step in path:
        found: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                if key_node.value == str(step):
                    found, mark = value_node, key_node.start_mark
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = node.value[step]
            mark = found.start_mark
        if found is None:
            break
        node, depth = found, depth + 1
    return (mark.line + 1, mark.column + 1, depth) if mark else (1, 1, 0)


def _known_keys(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that the model takes at a path; falls back to all that it takes anywhere."""
    current: Any = model
    for step in path:
        fields = getattr(current, "model_fields", {})
        if isinstance(step, str) and step in fields:
            current = _model_in(fields[step].annotation)
    return sorted(getattr(current, "model_fields", model.model_fields))


def _model_in(annotation: Any) -> Any:
    """The model inside an annotation such as `Expire | None` or `tuple[Stream, ...]`."""
    if hasattr(annotation, "model_fields"):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
