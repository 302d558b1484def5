"""The folder of policies, read and read again.

Each file is held in its last good version: one that breaks, or disappears half-written, never stops a table that had
a good policy; a table that never had one is left alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from isotherm.config import ConfigError, parse_yaml
from isotherm.policy import PolicyFile, Resolved, resolve


@dataclass(slots=True)
class PolicyFolder:
    """The policies in a folder (`*.yaml`, `*.yml`), without its sub-folders."""

    path: Path
    complaints: tuple[str, ...] = ()
    """What is wrong with the files as they are now; one line each."""
    _good: dict[str, PolicyFile] = field(default_factory=dict)
    _texts: dict[str, str] | None = None
    _resolved: dict[tuple[str, frozenset[tuple[str, str]]], Resolved | None] = field(default_factory=dict)

    def reload(self) -> bool:
        """Read the files again; whether anything is different from before."""
        texts, unreadable = self._read()
        if (
            texts == self._texts
            and unreadable == self.complaints[: len(unreadable)]
            and self._texts is not None
        ):
            return False
        self._texts = texts
        self._resolved.clear()
        complaints = list(unreadable)
        for name in set(self._good) - set(texts):
            if not unreadable:
                del self._good[name]
        for name, text in texts.items():
            try:
                self._good[name] = parse_yaml(text, name, PolicyFile)
            except ConfigError as err:
                complaints.extend(str(err).splitlines())
        self.complaints = tuple(complaints)
        return True

    def files(self) -> list[tuple[str, PolicyFile]]:
        """The policies in force, by file name."""
        return sorted(self._good.items())

    def resolve(self, table: str, properties: Mapping[str, str]) -> Resolved | None:
        """A table's policy; None: no file matches it, it is only observed."""
        key = (table, frozenset(properties.items()))
        if key not in self._resolved:
            self._resolved[key] = resolve(table, properties, self.files())
        return self._resolved[key]

    def _read(self) -> tuple[dict[str, str], tuple[str, ...]]:
        if not self.path.is_dir():
            return {}, (f"{self.path}: no such folder; set `policies:` in isotherm.yaml",)
        texts: dict[str, str] = {}
        complaints: list[str] = []
        for path in sorted((*self.path.glob("*.yaml"), *self.path.glob("*.yml"))):
            try:
                texts[path.name] = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as err:
                complaints.append(f"{path}: cannot be read: {err}")
        return texts, tuple(complaints)
