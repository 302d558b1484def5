"""A real catalog between which and us something goes wrong, when a test says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog.rest import RestCatalog


@dataclass
class FaultyCatalog:
    """Calls go to the real catalog through these hooks; each is given the real method and its arguments."""

    catalog: Any
    on_commit: Callable[..., Any] | None = None
    on_load: Callable[..., Any] | None = None

    @property
    def __class__(self) -> Any:
        # Taken for what it wraps: catalogs that PyIceberg updates itself are treated in their own way.
        return type(self.catalog)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)

    def commit_table(self, *arguments: Any) -> Any:
        hook, real = self.on_commit, self.catalog.commit_table
        return real(*arguments) if hook is None else hook(real, *arguments)

    def load_table(self, *arguments: Any) -> Any:
        hook, real = self.on_load, self.catalog.load_table
        return real(*arguments) if hook is None else hook(real, *arguments)


class OnRest(FaultyCatalog):
    """Taken for a REST catalog: others drop no branch with its snapshots."""

    @property
    def __class__(self) -> Any:
        return RestCatalog
