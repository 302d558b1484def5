"""The classes of a Spark driver in an archive of the JVM, so that the tests' drivers start with half of the CPU.

A driver loads some twenty thousand classes, and took eight of its first fifteen seconds of CPU for reading and
verifying them, each time again. The JVM can keep them in a file ("application class-data sharing"), which is made once
and stays in pytest's cache. A JVM with other jars, or another JVM, does not use it, and starts as without. What a class
does is the same in any case.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from isotherm.demo.stack import find_java

TESTS = Path(__file__).parents[1]
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Without this a JVM that cannot use the archive warns, in output that tests read."""
MADE_WITHIN_S = 240
OPTIONS_OF_DRIVERS = "SPARK_SUBMIT_OPTS"
"""Spark's launcher gives what is in this variable to each driver's JVM, and to no other."""
STATEMENTS = (
    "CREATE NAMESPACE lake.db",
    "CREATE TABLE lake.db.t (id bigint, at timestamp, name string) USING iceberg PARTITIONED BY (days(at))",
    "ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.merge.mode'='merge-on-read', 'write.delete.mode'='merge-on-read')",
    "INSERT INTO lake.db.t SELECT id, timestamp_seconds(id * 86400), CAST(id AS string) FROM range(4)",
    "MERGE INTO lake.db.t USING (SELECT 1L AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'one'",
    "DELETE FROM lake.db.t WHERE id = 2",
    "SELECT count(*) FROM lake.db.t JOIN lake.db.t.files ON true",
)


def start_drivers_from_archive(cache: Path, jars: list[Path]) -> None:
    """Have each local driver that this process and its children start from now on use the archive, if there is one.

    Where there is none it is made, in a minute. Whoever comes meanwhile waits for it.
    """
    archive = cache / f"spark-{_key(jars)}.jsa"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "spark.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                _make(archive, jars)
    # A JVM that does not find the file at all would do without its own classes' archive, too.
    if archive.exists() and str(archive) not in os.environ.get(OPTIONS_OF_DRIVERS, ""):
        options = f'{os.environ.get(OPTIONS_OF_DRIVERS, "")} "-XX:SharedArchiveFile={archive}" {QUIET}'
        os.environ[OPTIONS_OF_DRIVERS] = options.strip()


def _key(jars: list[Path]) -> str:
    """Another Java, another Spark or other jars: another archive."""
    java = find_java().resolve()
    parts = [pyspark.__version__, str(java), java.stat().st_mtime_ns, [str(jar) for jar in jars]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _make(archive: Path, jars: list[Path]) -> None:
    """Run a driver that writes at its end which classes it had loaded. Without it, tests take longer, and no harm."""
    for old in archive.parent.glob("spark-*"):
        old.unlink()  # of another Java, or of other jars
    made = archive.with_suffix(".made")
    command = [sys.executable, "-m", "support.class_archive", str(made), *map(str, jars)]
    path = os.pathsep.join([str(TESTS), *sys.path])
    with suppress(subprocess.SubprocessError):
        subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=MADE_WITHIN_S,
        )
        made.replace(archive)


def main(made: str, *jars: str) -> None:
    """A driver that does a little of everything, and ends."""
    from pyiceberg.catalog import load_catalog

    from isotherm_ingest.spark_session import JAVA_OPTIONS
    from support.spark import CATALOG, Lake, start_session

    with TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        load_catalog(CATALOG, **lake.pyiceberg_properties)  # makes the database
        options = f'{JAVA_OPTIONS} "-XX:ArchiveClassesAtExit={made}" {QUIET}'
        more = {"spark__driver__extraJavaOptions": options}
        session = start_session(lake, [Path(jar) for jar in jars], Path(folder), **more)
        for statement in STATEMENTS:
            session.sql(statement).collect()
        session.range(4).mapInArrow(lambda batches: batches, "id bigint").collect()
        gateway = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM ends when it reads the end of it
        gateway.proc.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
