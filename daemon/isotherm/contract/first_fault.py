"""Lists and maps that are refused at the first thing that is wrong in them.

Pydantic notes each wrong element, and goes on: a kilobyte and microseconds for two bytes that somebody wrote.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import FailFast, TypeAdapter, ValidationError


class AtFirstFault(FailFast):
    """Has a list refused at its first fault; pydantic's own mark cannot be in a union, because it has no hash."""

    __hash__ = object.__hash__


def first_fault(kind: Any, *, strict: bool | None = None) -> Callable[[Any], Any]:
    """What refuses a map at its first fault, before it is validated: of maps pydantic notes all of them.

    Args:
        kind: of the values.
        strict: whether a number may not be a text; None as `kind` says.
    """
    return partial(_checked, TypeAdapter(Annotated[list[kind], AtFirstFault()]), strict)


def _checked(values: TypeAdapter[Any], strict: bool | None, given: Any) -> Any:
    """What is given. Raises ValueError: it is a map with a wrong value."""
    if isinstance(given, Mapping):
        try:
            values.validate_python(list(given.values()), strict=strict)
        except ValidationError as err:
            first = err.errors(include_url=False, include_input=False)[0]
            number, *place = first["loc"]
            name = list(given)[int(number)]
            raise ValueError(".".join(map(str, (name, *place))) + f": {first['msg']}") from None
    return given
