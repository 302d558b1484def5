"""The servers together: started at the same time where they can be, watched, and stopped in order.

What they hold stays in the folder: a second start on it finds the same rows, topics and offsets (the ports are
others). One stack at a time may use a folder.
"""

import fcntl
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from isotherm.demo.stack.connect import Connect
from isotherm.demo.stack.errors import StackError
from isotherm.demo.stack.jars import Say, jar_paths, say_on_stderr
from isotherm.demo.stack.java import find_java
from isotherm.demo.stack.kafka import Kafka
from isotherm.demo.stack.postgres import Postgres

Part = TypeVar("Part")


class Stack:
    """PostgreSQL, Kafka and Kafka Connect, or some of them, under one folder."""

    def __init__(
        self,
        root: Path,
        postgres: bool = True,
        kafka: bool | Kafka = True,
        connect: bool = True,
        *,
        auto_create_topics: bool = True,
        worker: Mapping[str, object] | None = None,
        say: Say = say_on_stderr,
    ) -> None:
        """`kafka` may be a broker that runs already: it is used, not watched and not stopped.

        `worker` adds to the properties of the Connect worker; `say` gets a line when jars are downloaded.
        """
        if connect and not kafka:
            raise StackError("Kafka Connect needs Kafka")
        self.root = root.resolve()
        self._postgres = Postgres(self.root / "postgres") if postgres else None
        self._own_kafka: Kafka | None = None
        if kafka is True:
            self._own_kafka = Kafka(self.root / "kafka", auto_create_topics=auto_create_topics, say=say)
        self._kafka = kafka if isinstance(kafka, Kafka) else self._own_kafka
        self._with_connect = connect
        self._connect: Connect | None = None
        self._worker = worker
        self._say = say
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def postgres(self) -> Postgres:
        """PostgreSQL; StackError if this stack has none."""
        return _present(self._postgres, "PostgreSQL")

    @property
    def kafka(self) -> Kafka:
        """The broker; StackError if this stack has none."""
        return _present(self._kafka, "Kafka")

    @property
    def connect(self) -> Connect:
        """Kafka Connect; StackError if this stack has none, or has not started it yet."""
        return _present(self._connect, "Kafka Connect")

    @property
    def postgres_dsn(self) -> str:
        """Connection string for psycopg."""
        return self.postgres.dsn

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address."""
        return self.kafka.bootstrap_servers

    @property
    def parts(self) -> list[Postgres | Kafka | Connect]:
        """What this stack started or will start, in order."""
        return [part for part in (self._postgres, self._own_kafka, self._connect) if part is not None]

    def start(self) -> None:
        """Start everything and wait until it is ready; if one part fails, the others are stopped again.

        Raises:
            StackError: Java is missing, a part does not start, or another stack uses the folder.
        """
        if self._kafka is not None or self._with_connect:
            find_java()
        self._take_folder()
        try:
            # Here, and not in a thread: it may take a while the first time, and Ctrl-C must end it.
            if self._own_kafka is not None:
                jar_paths("kafka", self._own_kafka.folder, self._say)
            if self._with_connect:
                jar_paths("connect", self.root / "connect", self._say)
            self._start_together()
            if self._with_connect:
                self._connect = Connect(
                    self.root / "connect", self.bootstrap_servers, worker=self._worker, say=self._say
                )
                self._connect.start()
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """See that every part lives.

        Raises:
            StackError: one has died; the text holds its name and the end of its log.
        """
        for part in self.parts:
            part.check()

    def stop(self) -> None:
        """Stop everything, last started first; what they hold stays in the folder."""
        for part in reversed(self.parts):
            part.stop()
        self._connect = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _start_together(self) -> None:
        pool = ThreadPoolExecutor(thread_name_prefix="stack")
        starts = [pool.submit(part.start) for part in self.parts]
        try:
            for start in starts:
                start.result()
        except BaseException:
            # Whoever waits for one of them sees it die, so that Ctrl-C does not wait for a start to time out.
            for part in self.parts:
                part.stop()
            raise
        finally:
            pool.shutdown()

    def _take_folder(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        # Open until `stop`: the system drops the lock with the file, however we end. Children do not inherit it.
        self._lock = (self.root / "lock").open("a+", encoding="ascii")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            self._lock.seek(0)
            owner = self._lock.read().strip()
            self._lock.close()
            self._lock = None
            raise StackError(
                f"{self.root} is in use by process {owner}: stop it, or take another folder"
            ) from err
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()


def _present(part: Part | None, name: str) -> Part:
    if part is None:
        raise StackError(f"this stack has no {name}")
    return part
