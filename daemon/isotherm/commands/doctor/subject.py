"""Whom the doctor looks at: a configuration, and what the checks before have learned that later ones need."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from isotherm.commands.doctor.hidden import Secrets
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import IsothermConfig
from isotherm.service.policies.policy_folder import PolicyFolder

if TYPE_CHECKING:
    from isotherm.iceberg.catalog import IcebergCatalog
    from isotherm.service.ports import LoadedTable


@dataclass(slots=True)
class Subject:
    """What is known so far."""

    file: Path
    config: IsothermConfig
    secrets: Secrets
    is_write_test: bool = False
    """Whether a small file may be written to each store, and deleted."""
    now_ms: Callable[[], int] = now_ms
    policies: PolicyFolder | None = None
    is_ready: bool = False
    """PyIceberg was imported."""
    catalog: "IcebergCatalog | None" = None
    names: list[str] = field(default_factory=list)
    """Of tables."""
    stores: dict[str, "LoadedTable"] = field(default_factory=dict)
    """By store, a table that lies there."""
    read: int = 0
    """Tables that were loaded."""
    unmatched: list[str] = field(default_factory=list)
    """Tables of which no policy speaks."""
