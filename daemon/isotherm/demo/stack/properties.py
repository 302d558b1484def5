"""Java's .properties files, as far as we write them."""

from collections.abc import Mapping
from pathlib import Path


def write_properties(path: Path, values: Mapping[str, object]) -> Path:
    """Write the values; Java reads such a file as Latin-1, so everything else is escaped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in values.items()), encoding="ascii")
    return path


def _escaped(value: object) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    units = text.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)
