"""The catalog of one story: in a file that all open, or a REST catalog behind a front that loses answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.http_front import Front, http_front
from support.rest_catalog import RestServer

KINDS = ("503", "500", "unheard", "lost", "twice", "late")
"""What becomes of a request: it is not heard, or heard and not answered, or heard twice."""


@dataclass(frozen=True)
class StoryLake:
    """Where the tables of a story are."""

    properties: dict[str, str]
    """Of the catalog, for PyIceberg."""
    database: Path
    """SQLite, in which the catalog keeps its tables."""
    front: Front | None = None

    @property
    def kind(self) -> str:
        return self.properties["type"]


def lake_in_a_file(folder: Path) -> StoryLake:
    database = folder / "catalog.db"
    properties = {"type": "sql", "uri": f"sqlite:///{database}", "warehouse": f"file://{folder}/warehouse"}
    return StoryLake(properties, database)


@contextmanager
def lake_behind_rest(folder: Path, server: RestServer) -> Iterator[StoryLake]:
    database = folder / "catalog.db"
    with http_front(server.catalog_of_files(folder / "warehouse", database)) as front:
        yield StoryLake({"type": "rest", "uri": front.url}, database, front)
