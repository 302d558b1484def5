"""Maintenance as it is done without Isotherm: Iceberg's procedures for each whole table, on a timer.

`python -m isotherm.demo.timer timer.yaml` is a process with a Spark session of its own, as a scheduled task is. Each
round calls `rewrite_data_files` and `expire_snapshots`, table by table. What fails is logged; the next round tries it
again, as a scheduler does. Rounds begin at an even pace, and no two run at once. It knows nothing of the stream.

It asks nobody whether a table is being written. That is what the demo measures.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from isotherm.runtime import logs
from isotherm.runtime.clock import monotonic_s, now_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR_CHARACTERS = 300


def main(path: Path) -> None:
    """Until SIGTERM; a call that runs by then ends by itself."""
    logs.configure(program="timer")
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    spark = _session(config)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    logs.get().info("started", every_s=config["every_s"])
    while not stopping.is_set():
        began_s, began_ms = monotonic_s(), now_ms()
        for table in config["tables"]:
            for procedure, statement in calls(config, table, now_ms()):
                if not stopping.is_set() and spark.catalog.tableExists(f"{config['catalog']}.{table}"):
                    _call(spark, table, procedure, statement)
        logs.get().info("round_done", began_ms=began_ms, seconds=round(monotonic_s() - began_s, 3))
        stopping.wait(max(0.0, began_s + config["every_s"] - monotonic_s()))
    spark.stop()


def calls(config: Mapping[str, Any], table: str, at_ms: int) -> Iterator[tuple[str, str]]:
    """What a round calls for one table: the name of the procedure, and the statement."""
    options = ", ".join(f"'{name}', '{value}'" for name, value in config["rewrite_data_files"].items())
    expire = config["expire_snapshots"]
    older_than = datetime.fromtimestamp(at_ms / 1000 - expire["older_than_s"], UTC)
    arguments = {
        "rewrite_data_files": f"options => map({options})",
        "expire_snapshots": f"older_than => TIMESTAMP '{older_than:%Y-%m-%d %H:%M:%S.%f}', "
        f"retain_last => {expire['retain_last']}",
    }
    for procedure, more in arguments.items():
        yield procedure, f"CALL {config['catalog']}.system.{procedure}(table => '{table}', {more})"


def _call(spark: "SparkSession", table: str, procedure: str, statement: str) -> None:
    log = logs.get().bind(table=table, procedure=procedure)
    began_s = monotonic_s()
    try:
        [answer] = spark.sql(statement).collect()
    except Exception as err:  # noqa: BLE001 (whatever it is: it is counted, and the next round tries again)
        seconds = round(monotonic_s() - began_s, 3)
        log.error("procedure_failed", seconds=seconds, error=first_cause(err))  # noqa: TRY400 (Spark's traceback is long)
    else:
        log.info("procedure_done", seconds=round(monotonic_s() - began_s, 3), **answer.asDict())


def first_cause(err: BaseException) -> str:
    """What went wrong in one line: the first that names an exception of Java's, without "an error occurred"."""
    lines = [line.strip().removeprefix(": ") for line in str(err).splitlines()]
    named = (line for line in lines if "Exception" in line or "Error:" in line)
    return next(named, lines[0] if lines else type(err).__name__)[:ERROR_CHARACTERS]


def _session(config: Mapping[str, Any]) -> "SparkSession":
    """Spark, whose JVM ignores the signal that ends us: the call that runs shall end."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    builder = SparkSession.builder
    for name, value in config["spark"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
