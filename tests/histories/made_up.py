"""A table of made-up files: what is in it, and the words to change it. What happens to it is chosen elsewhere."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from histories.java import Java, refusing
from histories.judges import Live, Reader
from isotherm.core.model.files import FileKind

SPECS: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (("hour", "at"),),
    (("day", "at"), ("identity", "region")),
    (("identity", "region"),),
    (("bucket[4]", "id"),),
    (("hour", "at"), ("bucket[2]", "id")),
    (("truncate[1]", "region"), ("identity", "n")),
    (("identity", "day"),),
    (("month", "at"), ("identity", "price"), ("identity", "ok")),
)
SIZES = (0, 1, 1_000, 80_000, 3_000_000, 150_000_000)
TIMES = {
    "hour": ("490000", "490001", "490002"),
    "day": ("2026-01-01", "2026-01-02", "2026-01-03"),
    "month": ("672", "673", "674"),
    "year": ("55", "56"),
}
"""Values of time transforms, as text."""
NUMBER = 4
VALUES = {
    3: ("alpha", "bravo", 'q"ü', ""),
    5: ("1969-12-31", "2026-01-01", "2026-01-02"),
    6: ("1.50", "-0.01"),
    7: ("true", "false"),
}
"""Values of columns, by field id, as text."""


@dataclass
class MadeUp:
    """One table, its files, and the chance that moves it."""

    java: Java
    chance: random.Random
    name: str
    reader: Reader = field(default_factory=Reader)
    table: Any = None
    """The Java table."""
    seen: Table | None = None
    """The same in PyIceberg, as it was after the last step."""
    live: list[Live] = field(default_factory=list)
    files: dict[str, Any] = field(default_factory=dict)
    """Every file that was ever made, by path: the Java object."""
    vectors: dict[str, Any] = field(default_factory=dict)
    """The newest deletion vector of a data file, by the data file's path."""
    number: int = 0
    generation: int = 0

    def create(self) -> str:
        """The table, loaded again."""
        self.generation += 1
        version = self.chance.choice((1, 2, 2, 2, 3))
        fields = self.chance.choice(SPECS)
        schema = self.java.schema()
        properties = {
            "format-version": str(version),
            "commit.manifest.min-count-to-merge": str(self.chance.choice((2, 3, 100))),
            "commit.manifest-merge.enabled": self.chance.choice(("true", "true", "false")),
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "3",
        }
        with refusing():
            self.table = self.java.catalog.createTable(
                self.java.identifier(self.name), schema, self.java.spec(schema, fields), properties
            )
        return f"v{version} {fields}"

    def look(self) -> None:
        """Load what the catalog has now."""
        try:
            self.seen = self.java.lake.load_table(self.name)
        except NoSuchTableError:
            self.seen, self.live = None, []
            return
        self.live = self.reader.live(self.seen)

    # What there is

    @property
    def uuid(self) -> str:
        return str(self.seen.metadata.table_uuid)

    @property
    def version(self) -> int:
        return int(self.seen.metadata.format_version)

    @property
    def head(self) -> int | None:
        head = self.seen.current_snapshot()
        return None if head is None else head.snapshot_id

    @property
    def snapshots(self) -> list[int]:
        return [one.snapshot_id for one in self.seen.metadata.snapshots]

    @property
    def ancestors(self) -> list[int]:
        """Of the head, newest first, the head too."""
        parents = {one.snapshot_id: one.parent_snapshot_id for one in self.seen.metadata.snapshots}
        found, current = [], self.head
        while current in parents:
            found.append(current)
            current = parents[current]
        return found

    def of_kind(self, *kinds: FileKind) -> list[Live]:
        """Live files that we can name: what Iceberg copied or made itself is left alone."""
        return [one for one in self.live if one.kind in kinds and one.path in self.files]

    def some(self, files: list[Live], most: int) -> list[Live]:
        return self.chance.sample(files, self.chance.randint(1, min(most, len(files)))) if files else []

    # New files

    def data(self, like: Live | None = None, rows: int | None = None) -> Any:
        """A data file of the current spec; `like`: in the same partition, by the same spec."""
        path = self._path("parquet")
        rows = self.chance.choice((0, 1, 10, 1000)) if rows is None else rows
        size = self.chance.choice(SIZES) + self.number
        if like is not None:
            spec = self.table.specs()[like.spec_id]
            builder = self.java.static("DataFiles.builder")(spec).withPath(path).withFormat("parquet")
            builder = builder.withRecordCount(rows).withFileSizeInBytes(size)
            made = builder.withPartition(self.files[like.path].partition()).build()
        else:
            made = self.java.data_file(self.table.spec(), path, rows, size, self.values())
        self.files[path] = made
        return made

    def deletes(self, of: Live, *, equality: bool = False) -> Any:
        """A delete file in the partition of a live file."""
        path = self._path("parquet")
        kind = {"equality": [1, 2] if self.chance.random() < 0.3 else [1]} if equality else {}
        spec, partition = self.table.specs()[of.spec_id], self.files[of.path].partition()
        made = self.java.delete_file(
            spec, path, self.chance.randint(1, 20), 50 + self.number, partition, **kind
        )
        self.files[path] = made
        return made

    def vector(self, of: Live, path: str | None = None, offset: int = 4) -> Any:
        """A deletion vector of a live data file; several may share a Puffin file."""
        path = path or self._path("puffin")
        spec, partition = self.table.specs()[of.spec_id], self.files[of.path].partition()
        rows, size = self.chance.randint(1, 20), 50 + self.number
        made = self.java.delete_file(spec, path, rows, size, partition, vector_of=of.path, offset=offset)
        self.files[path] = made
        return made

    def puffin(self) -> str:
        return self._path("puffin")

    def values(self) -> list[str | None]:
        """A partition of the current spec, as text."""
        fields = self.seen.spec().fields
        return [self._value(str(one.transform), one.source_id) for one in fields]

    def _value(self, transform: str, source: int) -> str | None:
        name, _, width = transform.rstrip("]").partition("[")
        pick = self.chance.choice
        if name == "void" or self.chance.random() < 0.12:
            return None
        if name == "bucket":
            return str(self.chance.randrange(int(width)))
        if name in TIMES:
            return pick(TIMES[name])
        if source == NUMBER:
            number = self.chance.randrange(-2, 3)
            return str(number - number % int(width)) if name == "truncate" else str(number)
        value = pick(VALUES[source])
        return value[: int(width)] if name == "truncate" else value

    def _path(self, ending: str) -> str:
        self.number += 1
        return f"{self.table.location()}/data/{self.generation}-{self.number}.{ending}"

    # Commits

    def commit(self, operation: Any, *, branch: str | None = None, staged: bool = False) -> None:
        """Commit an operation that makes a snapshot."""
        operation = operation.scanManifestsWith(self.java.inline)
        if branch is not None:
            operation = operation.toBranch(branch)
        if staged:
            operation = operation.stageOnly()
        operation.commit()

    def removed(self, operation: Any, files: Iterable[Live], word: str = "deleteFile") -> Any:
        """An operation that also removes files."""
        call: Callable[[Any, Any], Any] = lambda one, file: getattr(one, word)(file)  # noqa: E731
        for one in files:
            operation = call(operation, self.files[one.path])
        return operation
