"""Every field of the policy by its name: what its type says of it, and its values as people write them in a file.

Fields are made in `policy`; here they are found.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args

from pydantic.fields import FieldInfo

from isotherm.core.policy.cold_after import after_written
from isotherm.core.policy.policy import Floor, Policy, TableProperty
from isotherm.core.units import Unit, size_written, span_written
from isotherm.runtime.strict_model import StrictModel


@dataclass(frozen=True, slots=True)
class Rule:
    """One field of the policy, and what its type says of it."""

    section: str
    name: str
    info: FieldInfo

    def __str__(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def floor(self) -> Floor | None:
        """Its floor, if it has one."""
        return next((one for one in self.info.metadata if isinstance(one, Floor)), None)

    @property
    def table_property(self) -> str | None:
        """The table property that says the same, if there is one."""
        return next((one.name for one in self.info.metadata if isinstance(one, TableProperty)), None)

    @property
    def unit(self) -> Unit | None:
        """What it measures."""
        # `Size | None` keeps what is said of `Size` inside of the union.
        inner = [one for part in get_args(self.info.annotation) for one in get_args(part)]
        return next((one for one in (*self.info.metadata, *inner) if isinstance(one, Unit)), None)

    def written(self, value: Any) -> str:
        """A value of it as people write it in a file."""
        return written(value, self.unit)


def written(value: Any, unit: Unit | None = None) -> str:
    """A value as people write it in a file: `15m`, `128MiB`, `true`, `[{cron: 0 3 * * *, lasts: 2h}]`."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() if unit is Unit.SPAN:
            return span_written(value)
        case int() if unit is Unit.SIZE:
            return size_written(value)
        case timedelta():
            return after_written(value)
        case float():
            return f"{value:g}" if value == float(f"{value:g}") else repr(value)
        case dict():
            return f"{{{', '.join(f'{key}: {written(one)}' for key, one in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(written(one) for one in value)}]"
        case StrictModel():
            rules = (Rule("", name, info) for name, info in type(value).model_fields.items())
            said = {
                one.name: one.written(getattr(value, one.name))
                for one in rules
                if one.name in value.model_fields_set
            }
            return f"{{{', '.join(f'{name}: {text}' for name, text in said.items())}}}"
        case _:
            return str(value)


def rules() -> Iterator[Rule]:
    """Every field of the policy, in the order in which they are documented."""
    for section, info in Policy.model_fields.items():
        fields: dict[str, FieldInfo] = getattr(info.annotation, "model_fields", {})
        for name, field_info in fields.items():
            yield Rule(section, name, field_info)


RULES = {str(rule): rule for rule in rules()}
"""Every field by its dotted name: `cold.after`."""
FLOORS = {name: rule.floor for name, rule in RULES.items() if rule.floor is not None}
"""The floors, by dotted name."""
