"""Makes the reference of `streams.yaml` from the models that read it: `python docs/streams.py`.

Writes streams.schema.json, for editors, and streams.md. The prose is in the models' docstrings, and in ingest.md.
"""

import json
import re
from pathlib import Path
from typing import Any

from isotherm_ingest.streams import StreamsConfig

HERE = Path(__file__).parent
SCHEMA, REFERENCE = HERE / "streams.schema.json", HERE / "streams.md"
TITLE = "One file for one ingest job"
HEAD = """# streams.yaml

Every option of the file that `isotherm-ingest` reads, made from the code that reads it (`python docs/streams.py`). [ingest.md](ingest.md)
says what they do together, [queries.md](queries.md) has worked examples, and [deploy/streams.yaml](../deploy/streams.yaml) is a file in which each of them stands.

    # yaml-language-server: $schema=../docs/streams.schema.json
    pipeline: shop
    catalog: {name: lake, properties: {type: rest, uri: "https://catalog.example.com"}}
    kafka: {properties: {bootstrap.servers: "kafka-1.example.com:9093"}}
    streams:
      - {topics: 'shop\\.public\\..*', table: "shop.{table}"}

The line at the top gives completion and complaints in every editor that knows YAML schemas. An unknown key is refused, with the nearest known one,
file, line and column; `isotherm-ingest validate` does so without connecting to anything. Any option may come from the environment:
`ISOTHERM_INGEST_KAFKA__CONTROL_TOPIC=…`. A span is a number with `ms`, `s`, `m` or `h`.
"""


def schema() -> dict[str, Any]:
    """The JSON Schema."""
    found = StreamsConfig.model_json_schema()
    found["title"] = TITLE
    return found


def schema_text() -> str:
    """The JSON Schema, as it is committed."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def reference_text() -> str:
    """The page."""
    found = schema()
    sections = [("", "The whole", found)]
    met = set()
    for path, _, one in sections:  # grows while it is read: what stands within comes behind
        for name, field in one.get("properties", {}).items():
            inner = _model_of(field, found)
            if inner is not None and inner not in met:
                met.add(inner)
                where = f"{path}.{name}" if path else name
                sections.append(
                    (
                        where + ("[]" if "array" in str(field.get("type")) else ""),
                        where,
                        found["$defs"][inner],
                    )
                )
    parts = [HEAD.rstrip("\n")]
    for path, _, one in sections:
        parts.append(
            f"## {f'`{path}`' if path else 'The whole file'}\n\n{_plain(one.get('description'))}\n\n{_fields(one, found)}"
        )
    return "\n\n".join(parts) + "\n"


def _fields(model: dict[str, Any], whole: dict[str, Any]) -> str:
    required = set(model.get("required", ()))
    lines = []
    for name, field in model.get("properties", {}).items():
        said = [_kind(field, whole)]
        if name in required:
            said.append("required")
        elif (default := _default(field)) is not None:
            said.append(f"default `{default}`")
        lines.append(f"- **`{name}`** ({', '.join(said)}). {_plain(field.get('description'))}")
    return "\n".join(lines)


def _default(field: dict[str, Any]) -> str | None:
    value = field.get("default")
    if value in (None, "", [], {}) or isinstance(value, dict):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(field: dict[str, Any], whole: dict[str, Any]) -> str:
    if "anyOf" in field:
        kinds = [_kind(one, whole) for one in field["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return " or ".join(f"`{one}`" for one in field["enum"])
    if "$ref" in field:
        inner = whole["$defs"][field["$ref"].rpartition("/")[2]]
        return _kind(inner, whole) if "properties" not in inner else "see below"
    match field.get("type"):
        case "array":
            items = field.get("items", {})
            return "list" if _model_of(field, whole) is None else f"list, {_kind(items, whole)}"
        case "object":
            return "names and values"
        case "integer":
            return "whole number"
        case "number":
            return "number"
        case "boolean":
            return "true or false"
        case _:
            return {"path": "path", "password": "secret"}.get(str(field.get("format")), "text")


def _model_of(field: dict[str, Any], whole: dict[str, Any]) -> str | None:
    """The model that stands within a field, if one does."""
    for one in (field, field.get("items", {}), *field.get("anyOf", ())):
        if isinstance(one, dict) and "$ref" in one:
            name = one["$ref"].rpartition("/")[2]
            return name if "properties" in whole["$defs"][name] else None
    return None


def _plain(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


def main() -> None:
    """Write both."""
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    REFERENCE.write_text(reference_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
