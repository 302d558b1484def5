"""A daemon in the simulated world: the real service on its real stores, with everything else put in its place."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.table.metadata import TableMetadataUtil

from isotherm.core.model.jobs import CompactionJob, MergedDeletes, Rewrite, WrittenFile
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.observations import Observation, PoliciesLoaded, TableFailed
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.compaction.names import data_location
from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.config import CatalogConfig, IsothermConfig, KafkaConfig, StateConfig
from isotherm.service.loop import Service
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.service.ports import LoadedTable
from isotherm.store import Fold, Ledger
from simulation.brokers import Brokers, SimulatedEvents, SimulatedHolds
from simulation.lake import SimulatedCatalog, Turns
from simulation.world import Broken, World
from simulation.writers import KEYS
from support.memory_topics import MemoryKeyedTopic


class Executor:
    """Rewrites without processes: data files hold their rows as JSON here."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._running: dict[str, tuple[CompactionJob, str]] = {}

    def running(self) -> frozenset[str]:
        """The ids of jobs."""
        return frozenset(self._running)

    def start(self, job: CompactionJob, table: str, io_properties: Mapping[str, str]) -> None:
        """Begin."""
        del io_properties
        self._running[job.job_id] = (job, table)

    def poll(self) -> list[tuple[str, Rewrite | Refusal]]:
        """What ended, when chance lets it end."""
        ended: list[tuple[str, Rewrite | Refusal]] = []
        for job_id, (job, table) in list(self._running.items()):
            if self._world.may(0.3):
                continue
            del self._running[job_id]
            ended.append((job_id, self._rewrite(job, table)))
        return ended

    def progress(self) -> Mapping[str, Progress]:
        """None of them has come far."""
        return dict.fromkeys(self._running, Progress(1, 1))

    def wait(self, timeout_s: float) -> None:
        """Nothing to wait for."""

    def cancel(self, job_id: str) -> None:
        """End a job; what it has written so far stays."""
        if job_id in self._running and self._world.may(0.5):
            self._write(*self._running[job_id])
        self._running.pop(job_id, None)

    def cancel_abandoned(self, job: CompactionJob) -> None:
        """Nothing outlives its daemon."""

    def stop(self) -> None:
        """End all."""
        for job_id in list(self._running):
            self.cancel(job_id)

    def _write(
        self, job: CompactionJob, table: str
    ) -> tuple[tuple[str, list[int]], tuple[str, list[tuple[str, int]]]] | None:
        """Rows, and deletes on files that stay, each with the file that holds them."""
        files = self._world.files
        try:
            deleted = set(self._deleted(job))
            rows = [
                row
                for file in job.data_files
                for place, row in enumerate(json.loads(files[file.path]))
                if (file.path, place) not in deleted
            ]
        except KeyError:
            return None
        metadata = TableMetadataUtil.parse_raw(table)
        staying = {file.path for file in job.staying}
        left = sorted((name, place) for name, place in deleted if name in staying)
        data, deletes = data_location(job, metadata, 0), data_location(job, metadata, 1)
        for path, content in ((data, rows), (deletes, left)):
            if content:
                files[path] = json.dumps(content).encode()
        return (data, rows), (deletes, left)

    def _deleted(self, job: CompactionJob) -> Iterator[tuple[str, int]]:
        """The rows that a job's deletes remove, each by its file and its place in it."""
        files, numbers = self._world.files, {file.path: file.sequence_number for file in job.named_files}
        for delete in job.position_deletes:
            for path, place in json.loads(files[delete.path]):
                if numbers.get(path, sys.maxsize) <= delete.sequence_number:
                    yield path, place
        for delete in job.equality_deletes:
            keys = json.loads(files[delete.path])
            for file in job.named_files:
                if file.sequence_number < delete.sequence_number:
                    rows = enumerate(json.loads(files[file.path]))
                    yield from ((file.path, place) for place, row in rows if row % KEYS in keys)

    def _rewrite(self, job: CompactionJob, table: str) -> Rewrite | Refusal:
        written = self._write(job, table)
        if written is None:
            return Refusal(Reason.MISSING_FILE, "a file is gone")
        if self._world.may(self._world.faults.rewrite_fails):
            self._world.tell("a rewrite fails")
            return Refusal(Reason.UNEXPECTED, "chance")
        (path, rows), (_, left) = written
        read = sum(file.rows for file in job.data_files)
        sums = hash(tuple(sorted(rows))) % 2**64
        return Rewrite(
            job_id=job.job_id,
            files=self._written(path, rows),
            rows_read=read,
            rows_deleted=read - len(rows),
            hash_read=sums,
            hash_written=sums,
            rows_written=len(rows),
            bytes_read=1,
            bytes_written=1,
            seconds=1.0,
            peak_memory_bytes=1,
            schema_id=0,
            merged=MergedDeletes(self._written(written[1][0], left), len(left), len(left), 0, 0),
        )

    def _written(self, path: str, content: Sequence[Any]) -> tuple[WrittenFile, ...]:
        nothing: dict[int, Any] = {}
        if not content:
            return ()
        return (WrittenFile(path, len(self._world.files[path]), len(content), *([nothing] * 6), ()),)


class Maintainer(IcebergMaintainer):
    """The real one, on a store that says what time it is."""

    ahead_ms: Callable[[], int]

    def clock_skew_ms(self, loaded: LoadedTable) -> int | None:
        """As a file would show that is written now."""
        del loaded
        return self.ahead_ms()


@dataclass
class Daemon:
    """One daemon: its folder, and its process where it lives."""

    world: World
    brokers: Brokers
    folder: Path
    policies: Path
    number: int = 0
    service: Service | None = None
    told: list[Observation] = field(default_factory=list)
    ahead_ms: int = 0
    """How far its wall clock is ahead of the truth."""

    def boot(self) -> None:
        """A new process on the same folder."""
        world = self.world
        catalog = SimulatedCatalog(world)
        maintainer = Maintainer(
            catalog,
            Executor(world),  # type: ignore[arg-type]
            self.now_ms,
            self.monotonic_s,
            self.pause,
            Turns(world),  # type: ignore[arg-type]
        )
        maintainer.ahead_ms = lambda: self.ahead_ms
        self.service = Service(
            config=IsothermConfig(
                catalog=CatalogConfig(properties={"type": "sql"}),
                kafka=KafkaConfig(properties={"bootstrap.servers": "unused"}),
                state=StateConfig(path=self.folder),
                policies=self.policies,
            ),
            fold=Fold.open_or_rebuild(self.folder / "fold.db")[0],
            ledger=Ledger(self.folder / "ledger.db"),
            events=SimulatedEvents(self.brokers, self.number),
            catalog=IcebergCatalog(catalog, self.now_ms, Breaker(self.monotonic_s), Turns(world)),  # type: ignore[arg-type]
            maintainer=maintainer,
            hold_topic=SimulatedHolds(self.brokers),
            reader_topic=MemoryKeyedTopic([]),
            policies=PolicyFolder(self.policies),
            listen=self.hear,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
        )
        self.service.start()

    def now_ms(self) -> int:
        """Its wall clock."""
        return self.world.now_ms + self.ahead_ms

    def monotonic_s(self) -> float:
        """Its other clock, which nobody sets."""
        return self.world.now_ms / 1000

    def pause(self, seconds: float) -> None:
        """A pause between two attempts, in which others go on."""
        self.world.now_ms += int(seconds * 1000)
        self.world.touch("pause")

    def hear(self, what: Observation) -> None:
        """What it says of itself; a mistake of ours is no weather."""
        self.told.append(what)
        if isinstance(what, TableFailed) and what.traceback:
            raise Broken(f"a mistake while {what.doing}: {what.error}\n{what.traceback}")
        if isinstance(what, PoliciesLoaded) and not what.ok:
            raise Broken(what.complaints)

    def kill(self) -> None:
        """The process ends, wherever it is."""
        if self.service is not None:
            self.service.fold.close()
            self.service.ledger.close()
        self.service = None

    def stop(self) -> None:
        """The process is asked to end, and does."""
        assert self.service is not None
        self.service.stop()
        self.kill()

    # Its disk, while it does not run

    def back_up(self, name: str) -> None:
        """A copy of a store as it is now."""
        shutil.copy(self.folder / f"{name}.db", self.folder / f"{name}.copy")

    def restore(self, name: str) -> bool:
        """Put the copy back; whether there is one."""
        copy = self.folder / f"{name}.copy"
        if not copy.exists():
            return False
        self.lose(name)
        shutil.copy(copy, self.folder / f"{name}.db")
        return True

    def lose(self, name: str) -> None:
        """A store is gone."""
        for end in ("", "-wal", "-shm"):
            (self.folder / f"{name}.db{end}").unlink(missing_ok=True)
