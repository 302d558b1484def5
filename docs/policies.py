"""Makes what the documents say of policies from the models that read them: `python docs/policies.py`.

Writes policy.schema.json, and the part of policies.md between its two marks; the prose around it is written by hand.
"""

import json
import re
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from isotherm.core.model.jobs import ExecutorName, OutputSpec
from isotherm.core.policy.cold_after import LEARNED
from isotherm.core.policy.fields import FLOORS, RULES, Rule
from isotherm.core.policy.json_schema import schema
from isotherm.core.policy.policy import Epoch, Mode, Policy, Schedule, Window
from isotherm.core.policy.policy_test_case import Case, Snapshots
from isotherm.core.policy.precedence import PolicyFile
from isotherm.core.units import Unit

HERE = Path(__file__).parent
SCHEMA, REFERENCE = HERE / "policy.schema.json", HERE / "policies.md"
BEGIN, END = "<!-- made by docs/policies.py: begin -->", "<!-- made by docs/policies.py: end -->"
KINDS = {
    Unit.SPAN: "span",
    Unit.SIZE: "size",
    Unit.COUNT: "whole number",
    bool: "true or false",
    float: "number",
    int: "whole number",
    str: "IANA name of a time zone",
    Mode: " or ".join(f"`{mode}`" for mode in Mode),
    OutputSpec: " or ".join(f"`{name}`" for name in OutputSpec),
    ExecutorName | None: " or ".join(f"`{name}`" for name in ExecutorName),
}


def schema_text() -> str:
    """The JSON Schema, as it is committed."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def reference_text(written: str) -> str:
    """The page with its generated part replaced."""
    before, _, rest = written.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{_made()}\n{END}{after}"


def _made() -> str:
    parts = ["## Fields", *(_section(section) for section in Policy.model_fields)]
    parts += [_entries("### Entries of `work.windows` and `work.schedules`", Schedule)]
    parts += [
        _floors(),
        "## Fields of a test",
        _members(Case),
        "`snapshots` has two fields:",
        _members(Snapshots),
    ]
    return "\n\n".join(parts) + "\n"


def _section(section: str) -> str:
    about = _plain(PolicyFile.model_fields[section].annotation.__doc__)
    fields = [_field(rule) for rule in RULES.values() if rule.section == section]
    return f"### {section}\n\n{about}\n\n" + "\n".join(fields)


def _field(rule: Rule) -> str:
    default = rule.written(rule.info.get_default(call_default_factory=True))
    said = [_kind(rule), f"default `{default}`"]
    if rule.floor is not None:
        said.append(f"floor `{rule.written(rule.floor.least)}`")
    if rule.table_property is not None:
        said.append(f"table property `{rule.table_property}`")
    return f"- **`{rule.name}`** ({', '.join(said)}). {_plain(rule.info.description)}"


def _kind(rule: Rule) -> str:
    if rule.unit is not None:
        return KINDS[rule.unit] + (" or `null`" if type(None) in get_args(rule.info.annotation) else "")
    if rule.name == "after":
        return f"number, span, or `{LEARNED}`"
    if rule.name in {"min_files", "max_position_deletes"}:
        return f"whole number, or `{LEARNED}`"
    if rule.name == "sort":
        return "`table`, `none`, columns, or `zorder(columns)`"
    if rule.name == "epochs":
        return f"fields, each {', '.join(f'`{epoch}`' for epoch in Epoch)}"
    return KINDS.get(rule.info.annotation, "list")


def _entries(heading: str, model: type[BaseModel]) -> str:
    about = "A window has `cron` and `lasts`, and may have `do`; a schedule has all of these."
    assert set(Window.model_fields) < set(model.model_fields)  # noqa: S101 (what the sentence above says)
    return f"{heading}\n\n{about}\n\n{_members(model)}"


def _members(model: type[BaseModel]) -> str:
    rules = (Rule("", name, info) for name, info in model.model_fields.items())
    lines = []
    for rule in rules:
        default = rule.info.get_default(call_default_factory=True)
        need = " (required)" if rule.info.is_required() else ""
        said = (
            ""
            if rule.info.is_required() or default in (None, "", (), {})
            else f" (default `{_shown(rule, default)}`)"
        )
        lines.append(f"- **`{rule.name}`**{need}{said}: {_plain(rule.info.description)}")
    return "\n".join(lines)


def _shown(rule: Rule, default: object) -> str:
    if rule.name == "at":
        return "2026-01-01T12:00:00Z"
    return "very many" if rule.name == "commits_since" else rule.written(default)


def _floors() -> str:
    rows = [
        f"| `{name}` | `{RULES[name].written(floor.least)}` | {floor.why} |" for name, floor in FLOORS.items()
    ]
    return "\n".join(["## Floors", "", "| field | floor | below it |", "|---|---|---|", *rows])


def _plain(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


def main() -> None:
    """Write both."""
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    REFERENCE.write_text(reference_text(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
