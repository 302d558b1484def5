"""Which policy holds for a table, and where each of its values comes from.

Built-in defaults, then the table's own properties, then the files that match it, the most specific last; field by
field, a list as a whole. Only a table that some file matches is maintained. For deletion the stricter of property
and file wins, unless a file names that very table; `gc.enabled=false` is absolute.

Of two files that are as specific as each other the later name wins, or about deletion the one that keeps more, and
`conflicts` complains where they disagree.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from isotherm.core.deletion import is_gc_enabled
from isotherm.core.policy.fields import FLOORS, RULES
from isotherm.core.policy.patterns import MAX_LENGTH, matches, specificity, trouble_of
from isotherm.core.policy.policy import Mode, Policy, Sections
from isotherm.core.policy.policy_test_case import Case
from isotherm.core.units import MAX_COUNT, MAX_SIZE, MAX_SPAN_MS, Unit

BUILT_IN = "built-in"
"""The origin of a value that nobody said."""
PROPERTY = "table property"
"""The origin of a value from the table's own properties."""
GC_ENABLED, SELF_TRIMMING = "gc.enabled", "write.metadata.delete-after-commit.enabled"
PROPERTIES = (
    GC_ENABLED,
    SELF_TRIMMING,
    *(rule.table_property for rule in RULES.values() if rule.table_property),
)
"""The table properties that have a say."""
MORE_IS_STRICTER = frozenset({"expire.keep_for", "expire.keep_last", "metadata.keep_last"})
"""Fields about deletion that a table property may say too: the larger value keeps more."""
KEEPING = MORE_IS_STRICTER | {
    "expire.delete_after",
    "metadata.older_than",
    "orphans.older_than",
    "orphans.keep_for",
}
"""All fields of which the larger value keeps more."""


_MOST = {Unit.SPAN: MAX_SPAN_MS, Unit.SIZE: MAX_SIZE}
"""What a property may say at the most; one that says more means for ever."""


def _checked_override(name: str) -> str:
    if name not in FLOORS:
        near = difflib.get_close_matches(name[:80], FLOORS, n=1, cutoff=0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"these have one: {', '.join(FLOORS)}"
        raise ValueError(f"no field with a floor; {hint}")
    return name


def _checked_name(name: str) -> str:
    if (trouble := trouble_of(name)) is not None:
        raise ValueError(trouble)
    return name


TableName = Annotated[str, Field(min_length=1, max_length=MAX_LENGTH), AfterValidator(_checked_name)]


class PolicyFile(Sections):
    """One YAML file in the folder of policies."""

    tables: Annotated[tuple[TableName, ...], Field(min_length=1)]
    """Names or patterns of tables: `shop.orders`, `shop.*`, `*`. `*` crosses dots, case counts."""
    override: tuple[Annotated[str, AfterValidator(_checked_override)], ...] = ()
    """Fields whose value in this file may be below their floor: `[expire.keep_last]`."""
    tests: tuple[Case, ...] = ()
    """What this file should lead to; `isotherm policy test` holds the planner to it."""

    @model_validator(mode="before")
    @classmethod
    def _as_people_write(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        # A section of which every line is commented out is `null` for YAML, and says nothing.
        said = {key: value for key, value in data.items() if value is not None or key == "tables"}
        if isinstance(said.get("tables"), str):
            said["tables"] = [said["tables"]]
        return said

    @model_validator(mode="after")
    def _above_the_floors(self) -> Self:
        wrong: list[InitErrorDetails] = []
        said = {
            f"{section}.{name}": value
            for section, fields in self.rules().items()
            for name, value in fields.items()
        }
        for name, floor in FLOORS.items():
            if name in said and said[name] < floor.least and name not in self.override:
                text = (
                    f"{RULES[name].written(said[name])} is below the floor of {RULES[name].written(floor.least)}: "
                    f"{floor.why}; raise it, or if you mean it, add `override: [{name}]`"
                )
                wrong.append(_detail(text, tuple(name.split("."))))
        for place, name in enumerate(self.override):
            if name not in said or said[name] >= FLOORS[name].least:
                what = "says nothing of it" if name not in said else f"says {RULES[name].written(said[name])}"
                text = f"the floor of {name} is {RULES[name].written(FLOORS[name].least)} and this file {what}: take it out"
                wrong.append(_detail(text, ("override", place)))
        if wrong:
            _refuse(wrong)
        return self

    def rules(self) -> dict[str, dict[str, Any]]:
        """Only what the file says, nested by section."""
        return {
            section: {
                rule: getattr(getattr(self, section), rule)
                for rule in RULES_OF[section]
                if rule in getattr(self, section).model_fields_set
            }
            for section in Policy.model_fields
            if section in self.model_fields_set
        }

    def specificity(self, table: str) -> tuple[bool, int] | None:
        """How specifically the file names a table. Returns None where it does not name it at all."""
        return max((specificity(one) for one in self.tables if matches(one, table)), default=None)


Weighed = tuple[tuple[bool, int], str, PolicyFile]
"""How specifically a file names a table, the file's name, and the file."""
RULES_OF = {
    section: tuple(rule.name for rule in RULES.values() if rule.section == section)
    for section in Policy.model_fields
}


def _detail(text: str, place: tuple[str | int, ...]) -> InitErrorDetails:
    return InitErrorDetails(
        type=PydanticCustomError("floor", "{text}", {"text": text}), loc=place, input=None
    )


def _refuse(wrong: list[InitErrorDetails]) -> NoReturn:
    # A plain ValueError would lose the places.
    raise ValidationError.from_exception_data("PolicyFile", wrong)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A table's policy, and where each value of it comes from (`cold.after` → `shop.yaml`)."""

    policy: Policy
    origins: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What a person may wonder about: values that were raised to a floor, or gave way to a stricter one."""

    @property
    def looks_for_orphans(self) -> bool:
        """Whether nobody has said `orphans.mode: off`.

        With `gc.enabled=false` it is off for the table's sake, and what the table needs is put back all the same.
        """
        is_for_its_sake = self.origins.get("orphans.mode", "").startswith(PROPERTY)
        return self.policy.orphans.mode is not Mode.OFF or is_for_its_sake


def resolve(
    table: str, properties: Mapping[str, str], files: Iterable[tuple[str, PolicyFile]]
) -> Resolved | None:
    """The policy of a table, from its properties and the named policy files; None where no file matches it."""
    return resolve_weighed(
        properties,
        ((how, name, file) for name, file in files if (how := file.specificity(table)) is not None),
    )


def resolve_weighed(properties: Mapping[str, str], files: Iterable[Weighed]) -> Resolved | None:
    """The same, of the files that match the table, and of which it is known how specifically they name it."""
    matching = sorted(files, key=lambda one: one[:2])
    if not matching:
        return None
    layers = _Layers()
    layers.lay_properties(properties)
    for weight, name, file in matching:
        layers.lay_file(name, file, weight)
    layers.lay_absolutes(properties)
    return layers.resolved()


class _Layers:
    """Values that lie one over the other, each with its origin."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.weights: dict[str, tuple[bool, int]] = {}
        self.notes: list[str] = []
        self.unreadable: list[str] = []
        """Table properties about how much stays that are no numbers."""

    def lay(self, name: str, value: Any, origin: str) -> None:
        self.values[name] = value
        self.origins[name] = origin

    def lay_properties(self, properties: Mapping[str, str]) -> None:
        """Iceberg's own table properties; what is no number is left to Iceberg to complain about.

        But where it says how much stays: then nothing goes (`lay_absolutes`).
        """
        for name, rule in RULES.items():
            text = properties.get(rule.table_property, "") if rule.table_property else ""
            if not re.fullmatch(r"-?[0-9]{1,100}", text, re.ASCII):
                if text and name in KEEPING:
                    # Iceberg's Java refuses to expire anything then; nobody knows how much is meant to stay.
                    self.unreadable.append(rule.table_property or "")
                continue
            if int(text) <= 0:
                continue
            value = min(int(text), _MOST.get(rule.unit or Unit.COUNT, MAX_COUNT))
            if rule.floor is not None and value < rule.floor.least:
                self.notes.append(
                    f"{name}: the table property says {rule.written(value)}, raised to the floor; "
                    f"a file that names this table can say less"
                )
                value = rule.floor.least
            self.lay(name, value, PROPERTY)

    def lay_file(self, file_name: str, file: PolicyFile, weight: tuple[bool, int]) -> None:
        is_exact, _ = weight
        for section, fields in file.rules().items():
            for rule, value in fields.items():
                name = f"{section}.{rule}"
                if not is_exact and self._property_keeps_more(name, value):
                    self.notes.append(
                        f"{name}: {file_name} says {RULES[name].written(value)}, but the table property keeps more; "
                        f"only a file that names this table can overrule it"
                    )
                elif not (self.weights.get(name) == weight and self._keeps_more(name, value)):
                    origin = f"{file_name} (override)" if name in file.override else file_name
                    self.lay(name, value, origin)
                    self.weights[name] = weight

    def _keeps_more(self, name: str, value: Any) -> bool:
        """Whether what is there already keeps more: of two files that contradict each other, that one holds."""
        return name in KEEPING and bool(self.values[name] > value)

    def _property_keeps_more(self, name: str, value: Any) -> bool:
        return name in MORE_IS_STRICTER and self.origins.get(name) == PROPERTY and self.values[name] > value

    def lay_absolutes(self, properties: Mapping[str, str]) -> None:
        """What no file can overrule."""
        if properties.get(SELF_TRIMMING, "").lower() == "true":
            # The table's writers do it already.
            self.lay("metadata.enabled", False, f"{PROPERTY} {SELF_TRIMMING}")
        for name in self.unreadable:
            fields = ("metadata.enabled",) if "metadata" in name else ("expire.enabled",)
            for one in fields:
                self.lay(one, False, f"{PROPERTY} {name} is no number")
        if not is_gc_enabled(properties):
            for name, value in (
                ("expire.enabled", False),
                ("metadata.enabled", False),
                ("orphans.mode", Mode.OFF),
            ):
                # Who has switched it off is asked where files may come back from quarantine.
                if name != "orphans.mode" or self.values.get(name) is not Mode.OFF:
                    self.lay(name, value, f"{PROPERTY} {GC_ENABLED}")

    def resolved(self) -> Resolved:
        # Every value was validated where it came from; copies are not validated again.
        defaults = Policy()
        sections = {
            section: getattr(defaults, section).model_copy(
                update={
                    rule: self.values[name]
                    for rule in RULES_OF[section]
                    if (name := f"{section}.{rule}") in self.values
                }
            )
            for section in Policy.model_fields
        }
        return Resolved(Policy.model_construct(**sections), self.origins, tuple(self.notes))
