"""Has PyIceberg stop at the first thing that is wrong in a list or a map of metadata.

Pydantic notes each wrong element, and goes on: a kilobyte for two bytes that the owner of a table wrote, and as much text
for whoever asks what is wrong. PyIceberg itself keeps each column by its full name, which repeats the names of the structs
around it. What is right is read as before. PyIceberg's own models are changed, once: there is no other way in.
"""

from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator
from pyiceberg.catalog.rest import ListNamespaceResponse, ListTablesResponse, TableResponse
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse
from pyiceberg.table.metadata import TableMetadataWrapper
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import ListType, MapType, NestedField, StructType

from isotherm.contract.first_fault import AtFirstFault, first_fault

_ROOTS = (
    # Of a column's type no field tells that it may be one of these.
    StructType,
    ListType,
    MapType,
    TableMetadataWrapper,
    TableResponse,
    CommitTableResponse,
    ListTablesResponse,
    ListNamespaceResponse,
    NameMapping,
)
"""What PyIceberg makes of a text that the owner of a table, or a catalog, has written."""

MAX_NAMES_AROUND = 500
"""Characters of the structs' names around a column, on average of a schema."""


@cache
def stop_at_first_fault() -> None:
    """Change the models; called before anything is read by them."""
    columns = Schema.model_fields["fields"]
    columns.annotation = Annotated[columns.annotation, AfterValidator(_with_short_names)]  # type: ignore[assignment]
    done: set[type[BaseModel]] = set()
    for model in _ROOTS:
        _change(model, done)


def _change(model: type[BaseModel], done: set[type[BaseModel]]) -> None:
    if model in done:
        return
    done.add(model)
    for field in model.model_fields.values():
        for inner in _models_in(field.annotation):
            _change(inner, done)
        field.annotation = _stopping(field.annotation)
    # After what is in it: it takes their validators as they are.
    model.model_rebuild(force=True)


def _stopping(kind: Any) -> Any:
    """The type that takes the same values, and names one that is wrong."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[_stopping(inner[0]), *inner[1:]]
    if origin in (list, tuple):
        return Annotated[origin[tuple(map(_stopping, inner))], AtFirstFault()]
    if origin is dict and inner[1] is not Any:
        return Annotated[kind, BeforeValidator(first_fault(inner[1]))]
    return Union[tuple(map(_stopping, inner))] if origin in (Union, UnionType) else kind  # noqa: UP007 (of a tuple)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _with_short_names(columns: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
    """The columns of a schema. Raises ValueError: their full names are too long to be kept."""
    waiting = [(column, 0) for column in columns]
    count = around = 0
    while waiting:
        column, before = waiting.pop()
        count, around = count + 1, around + before
        within = before + len(column.name) + 1
        match column.field_type:
            case StructType(fields=fields):
                waiting += ((field, within) for field in fields)
            case ListType(element_field=element):
                waiting.append((element, within))
            case MapType(key_field=key, value_field=value):
                waiting += ((key, within), (value, within))
    if around > MAX_NAMES_AROUND * count:
        raise ValueError(
            f"the full names of its {count} columns have {around} characters of the structs around them"
        )
    return columns
