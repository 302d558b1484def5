"""The simulated store and catalog, as PyIceberg's own two: what lies between the daemon and the world can fail."""

import io
from collections.abc import Callable, Iterator, Sequence
from email.utils import formatdate
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, ForbiddenError, NoSuchTableError
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import CommitTableResponse, Table
from requests import Response

import support.remembered  # noqa: F401 (it is there before the first file)
from isotherm.clients.listing import StoredFile
from isotherm.iceberg.asking import Asks
from simulation.world import Broken, World


class _Saved(io.BytesIO):
    """What is written, until it is closed: a file appears as a whole."""

    def __init__(self, save: Callable[[bytes], None]) -> None:
        super().__init__()
        self._save = save

    def close(self) -> None:
        if not self.closed:
            self._save(self.getvalue())
        super().close()


class File(InputFile, OutputFile):
    """One file of the store."""

    def __init__(self, location: str, files: dict[str, bytes], world: World | None) -> None:
        super().__init__(location)
        self._files, self._world = files, world

    def _ask(self, what: str) -> None:
        if self._world is None:
            return
        self._world.touch(f"{what} {self.location.rpartition('/')[2]}")
        if self._world.may(self._world.faults.store_fails):
            self._world.tell(f"the store does not {what} {self.location.rpartition('/')[2]}")
            raise OSError(f"the store does not answer: {what} {self.location}")

    def __len__(self) -> int:
        self._ask("look at")
        return len(self._content())

    def exists(self) -> bool:
        self._ask("look for")
        return self.location in self._files

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002
        self._ask("read")
        data = self._content()
        if self._world is not None and self._world.may(self._world.faults.torn):
            self._world.tell(f"a torn read of {self.location.rpartition('/')[2]}")
            data = data[: len(data) // 2]
        return io.BytesIO(data)

    def create(self, overwrite: bool = False) -> Any:
        self._ask("create")
        if not overwrite and self.location in self._files:
            raise FileExistsError(self.location)
        return _Saved(self._save)

    def to_input_file(self) -> "File":
        return self

    def _save(self, data: bytes) -> None:
        self._ask("write")
        if self._files.get(self.location, data) != data:
            raise Broken(f"{self.location} was written over")
        self._files[self.location] = data

    def _content(self) -> bytes:
        if self.location not in self._files:
            raise FileNotFoundError(self.location)
        data = self._files[self.location]
        if not data and self._world is not None and self.location in self._world.versions:
            return self._world.versions[self.location].model_dump_json().encode()
        return data


class Store(FileIO):
    """The files of the world; without a world, as the writers see them, nothing ever fails."""

    def __init__(self, files: dict[str, bytes], world: World | None = None) -> None:
        super().__init__({})
        self._files, self._world = files, world

    def new_input(self, location: str) -> File:
        return File(location, self._files, self._world)

    def new_output(self, location: str) -> File:
        return File(location, self._files, self._world)

    def listed(self, folder: str) -> Iterator[list[StoredFile]]:
        """What lies below a folder, as the store lists it."""
        assert self._world is not None
        self._world.touch(f"list {folder}")
        if self._world.may(self._world.faults.store_fails):
            raise OSError(f"the store does not answer: list {folder}")
        written_ms = self._world.files.written_ms
        yield [
            StoredFile(path.removeprefix(folder), len(data), written_ms[path])
            for path, data in self._world.files.items()
            if path.startswith(folder)
        ]

    def written_at_ms(self, path: str) -> int | None:
        """When the store says that a file was written."""
        assert self._world is not None
        if self._world.may(self._world.faults.store_fails):
            raise OSError(f"the store does not answer: {path}")
        return self._world.files.written_ms[path] if path in self._files else None

    def delete(self, location: str | InputFile | OutputFile) -> None:
        assert isinstance(location, str)
        assert self._world is not None
        name = location.rpartition("/")[2]
        self._world.touch(f"delete {name}")
        if self._world.may(self._world.faults.store_fails):
            raise PermissionError(f"{location} may not be deleted")
        if location not in self._files:
            raise FileNotFoundError(location)
        self._world.on_delete(location)
        self._world.tell(f"deleted: {name}")
        del self._files[location]
        if self._world.may(self._world.faults.answer_lost):
            raise OSError("the answer to a deletion is lost")


class _Session:
    """What a REST client has besides its calls."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[Any]] = {"response": []}


class SimulatedCatalog(MetastoreCatalog):
    """The catalog of the world, seen through a network."""

    def __init__(self, world: World) -> None:
        super().__init__("simulated")
        self._world = world
        self._session = _Session()
        self._io = Store(world.files, world)

    @property
    def __class__(self) -> Any:
        return RestCatalog if self._world.is_rest else SimulatedCatalog

    def list_namespaces(self, namespace: Any = ()) -> list[Any]:
        self._ask("list the namespaces")
        return [] if namespace else sorted({(name.partition(".")[0],) for name in self._world.tables})

    def list_tables(self, namespace: Any) -> list[Any]:
        self._ask("list the tables")
        return [
            tuple(name.split(".")) for name in sorted(self._world.tables) if name.startswith(namespace[0])
        ]

    def load_table(self, identifier: Any) -> Table:
        name = identifier if isinstance(identifier, str) else ".".join(identifier)
        self._ask(f"load {name}")
        world = self._world
        if world.may(world.faults.not_found):
            world.tell(f"404 for {name}")
            raise NoSuchTableError(f"Table does not exist: {name}")
        version = world.tables.get(name)
        if version is None:
            raise NoSuchTableError(f"Table does not exist: {name}")
        if world.before.get(name) and world.may(world.faults.stale):
            world.tell(f"a stale read of {name}")
            version = world.chance.choice(world.before[name])
        return Table(tuple(name.split(".")), version.metadata, version.location, self._io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        world, name = self._world, ".".join(table.name())
        self._ask(f"commit to {name}")
        faults = world.faults
        if world.may(faults.forbidden):
            world.tell("403 for a commit")
            raise ForbiddenError("not authorized")
        if name not in world.tables:
            raise NoSuchTableError(f"Table does not exist: {name}")

        # A metastore's client loads the table and makes the new metadata itself; it lands if nothing came in between.
        base = world.tables[name].location

        def land() -> CommitTableResponse:
            if name not in world.tables:
                raise NoSuchTableError(f"Table does not exist: {name}")
            if not world.is_rest and world.tables[name].location != base:
                raise CommitFailedException("the table was updated by another process")
            world.refs_seen = frozenset(table.metadata.refs)
            landed = world.apply(name, requirements, updates)
            world.tell(f"the daemon commits to {name}: {', '.join(update.action for update in updates)}")
            return CommitTableResponse(**{"metadata": landed.metadata, "metadata-location": landed.location})

        if world.may(faults.lands_late):
            world.tell(f"a request to {name} is late")
            world.late.append(land)
            raise TimeoutError("no answer")
        answer = land()
        if world.may(faults.sent_twice):
            world.tell("a proxy sends the request again")
            answer = land()
        world.touch("the answer of a commit")
        if world.may(faults.answer_lost):
            world.tell("the answer is lost")
            raise ConnectionError("the connection was closed")
        return answer

    def _ask(self, what: str) -> None:
        self._world.touch(what)
        if self._world.may(self._world.faults.catalog_away):
            self._world.tell(f"the catalog does not {what}")
            raise ConnectionError("the catalog does not answer")
        answer = Response()
        answer.headers["Date"] = formatdate(self._world.now_ms // 1000)
        for hear in self._session.hooks["response"]:
            hear(answer)


def unused(self: SimulatedCatalog, *_: Any, **__: Any) -> Any:
    """What the daemon asks of no catalog."""
    raise NotImplementedError


for _name in SimulatedCatalog.__abstractmethods__:
    setattr(SimulatedCatalog, _name, unused)
SimulatedCatalog.__abstractmethods__ = frozenset()


class InTurn:
    """Work beside the loop without threads: it is done, as a whole, at some moment that chance chooses."""

    def __init__(self, world: World, limit_s: float) -> None:
        self._world, self._limit_s = world, limit_s
        self._waiting: dict[str, Callable[[Callable[[], bool]], Any]] = {}
        self._stopped: set[str] = set()

    def start(self, name: str, work: Callable[[Callable[[], bool]], Any], whose: str = "") -> None:
        del whose
        self._waiting[name] = work

    def ended(self) -> Iterator[tuple[str, Any]]:
        if not self._waiting or self._world.may(0.3):
            return
        name = next(iter(self._waiting))
        work = self._waiting.pop(name)
        stops = self._world.may(0.05)
        try:
            result = work(lambda: stops or name in self._stopped)
        except Exception as err:  # noqa: BLE001 (as a thread would give it)
            result = err
        self._stopped.discard(name)
        yield name, result

    def stop(self, name: str) -> None:
        self._stopped.add(name)

    def forget(self, name: str) -> None:
        self._waiting.pop(name, None)

    def wait(self, timeout_s: float) -> None:
        del timeout_s

    def close(self) -> None:
        self._waiting.clear()


class Asked:
    """Work beside the loop that asks it: done as a whole, with the loop's answers, in a turn that chance chooses."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._work: Callable[[Asks[Any, Any]], Any] | None = None

    def start(self, work: Callable[[Asks[Any, Any]], Any]) -> None:
        self._work = work

    def go_on(self, answer: Callable[[Any], Any], *, first_s: float | None = None) -> Any:
        del first_s
        if self._work is None or self._world.may(0.2):
            return None
        work, self._work = self._work, None
        try:
            return work(Asks(answer))
        except Exception as err:  # noqa: BLE001 (as a thread would give it)
            return err

    def close(self) -> None:
        self._work = None


class Turns:
    """How work is done beside the loop: in turn."""

    def __init__(self, world: World) -> None:
        self._world = world

    def beside(self, limit_s: float) -> InTurn:
        return InTurn(self._world, limit_s)

    def asking(self, limit_s: float, wait_s: float) -> Asked:
        del limit_s, wait_s
        return Asked(self._world)

    def within(self, limit_s: float, store: str, work: Callable[[], Any]) -> Any:
        del limit_s, store
        return work()

    def each(self, work: Callable[[Any], Any], items: Sequence[Any], at_once: int) -> Iterator[Any]:
        del at_once
        return map(work, items)

    def pause(self, seconds: float, is_stopped: Callable[[], bool]) -> None:
        del seconds, is_stopped
