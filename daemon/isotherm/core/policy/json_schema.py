"""The JSON Schema of a policy file, for editors, made from the models that read it.

Draft 7, without references: what editors' YAML servers understand best. It is a little less strict than the models
(a floor is only told, whether a cron expression ever comes to pass is not known to it), never stricter about what
people write.
"""

from typing import Any

from isotherm.core.policy.fields import RULES, Rule
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PolicyFile
from isotherm.core.units import Unit

DRAFT = "http://json-schema.org/draft-07/schema#"


def schema() -> dict[str, Any]:
    """The schema of one policy file."""
    made = PolicyFile.model_json_schema()
    definitions = made.pop("$defs")
    whole = _without_references(made, definitions)
    for name, rule in RULES.items():
        section = whole["properties"][rule.section]["properties"]
        section[rule.name] = {**section[rule.name], **_told(name, rule)}
    properties = whole["properties"]
    for section in (*Policy.model_fields, "tests", "override"):
        # A section of which every line is commented out is `null` for YAML.
        properties[section] = {**properties[section], "type": [properties[section]["type"], "null"]}
        properties[section].pop("default", None)
    properties["tables"] = {
        "anyOf": [properties["tables"]["items"], properties["tables"]],
        "description": properties["tables"].pop("description"),
    }
    properties["override"]["items"] = {
        "type": "string",
        "enum": [n for n, rule in RULES.items() if rule.floor],
    }
    return {
        "$schema": DRAFT,
        "title": "A policy of Isotherm",
        "description": "What should be maintained, for the tables that it names.",
        **{key: value for key, value in whole.items() if key not in ("title", "description")},
    }


def _told(name: str, rule: Rule) -> dict[str, Any]:
    """What is said about one field."""
    default = rule.info.get_default(call_default_factory=True)
    text = [" ".join((rule.info.description or "").split())]
    if rule.floor is not None:
        least = rule.written(rule.floor.least)
        text.append(f"Floor: {least}; below it only with `override: [{name}]`: {rule.floor.why}.")
    if rule.table_property is not None:
        text.append(f"Table property: {rule.table_property}.")
    if rule.unit in (Unit.SPAN, Unit.SIZE) and default is not None:
        default = rule.written(default)
    return {"description": " ".join(text), "default": list(default) if default == () else default}


def _without_references(node: Any, definitions: dict[str, Any]) -> Any:
    """The same schema, every reference replaced by what it names; none of ours is recursive."""
    match node:
        case {"$ref": str(reference), **others}:
            named = definitions[reference.rpartition("/")[2]]
            return _without_references({**named, **others}, definitions)
        case dict():
            return {
                key: {name: _without_references(one, definitions) for name, one in value.items()}
                if key == "properties"
                else _without_references(value, definitions)
                for key, value in node.items()
                if key != "title"
            }
        case list():
            return [_without_references(one, definitions) for one in node]
        case str():
            return " ".join(node.split()) if "\n" in node else node
        case _:
            return node
