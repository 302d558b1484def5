"""What is different between two versions of policies: of the files, or of what holds for a table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from isotherm.core.policy.fields import RULES
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PolicyFile

UNSET = "unset"
"""What a file says of a field that it does not name."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a table's policy, before and after, as people write it."""

    field: str
    before: str
    after: str


def policy_changes(before: Policy, after: Policy) -> tuple[FieldChange, ...]:
    """The fields that differ, in the order in which they are documented."""
    found = []
    for name, rule in RULES.items():
        old, new = (getattr(getattr(policy, rule.section), rule.name) for policy in (before, after))
        if old != new:
            found.append(FieldChange(name, rule.written(old), rule.written(new)))
    return tuple(found)


def file_changes(before: Mapping[str, PolicyFile], after: Mapping[str, PolicyFile]) -> Iterator[str]:
    """What is different between two versions of a folder, a line for each file or field."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None and new is not None:
            yield f"{name}: new, for {', '.join(new.tables)}"
        elif new is None and old is not None:
            yield f"{name}: gone, was for {', '.join(old.tables)}"
        elif old is not None and new is not None:
            yield from (f"{name}: {line}" for line in _changed_fields(old, new))


def _changed_fields(old: PolicyFile, new: PolicyFile) -> Iterator[str]:
    if old.tables != new.tables:
        yield f"tables {', '.join(old.tables)} → {', '.join(new.tables)}"
    said = old.rules(), new.rules()
    for name, rule in RULES.items():
        before, after = (
            rule.written(rules[rule.section][rule.name])
            if rule.name in rules.get(rule.section, {})
            else UNSET
            for rules in said
        )
        if before != after:
            yield f"{name} {before} → {after}"
