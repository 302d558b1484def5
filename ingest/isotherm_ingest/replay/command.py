"""A replay, as it is called: Spark where it is needed, and plain words for what keeps it from beginning."""

import typer
from pyspark.sql import SparkSession

from isotherm.runtime.exit_codes import EXIT_ERROR, EXIT_TAKEN_OVER
from isotherm_ingest.commands.terminal import err, plain_errors, told
from isotherm_ingest.failures import TableRefused, WorkFailed
from isotherm_ingest.marks import TakenOver
from isotherm_ingest.registry import RegistryAwayError
from isotherm_ingest.replay.outcome import Asked, Replayed
from isotherm_ingest.replay.replay import NotAlone, replay
from isotherm_ingest.spark_session import start_session, stop_session
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.workers.reading import ReadError


def replayed(config: StreamsConfig, asked: Asked) -> Replayed:
    """Replay; raises Exit where it cannot."""
    sessions: list[SparkSession] = []

    def start() -> SparkSession:
        sessions.append(start_session(config))
        return sessions[0]

    try:
        with plain_errors():
            return replay(config, asked, start)
    except NotAlone as why:
        _end(
            f"{why}. Stop the job of {config.pipeline} first: two would write one table. --take-over ends it, and begins",
            EXIT_ERROR,
        )
        raise  # unreachable: _end exits
    except TakenOver as why:
        _end(
            f"a driver of {config.pipeline} was started meanwhile ({why}): what is committed stays",
            EXIT_TAKEN_OVER,
        )
        raise
    except (TableRefused, WorkFailed, RegistryAwayError, ReadError) as why:
        _end(str(why), EXIT_ERROR)
        raise
    finally:
        for one in sessions:
            stop_session(one)


def _end(why: str, code: int) -> None:
    err.print(told(why, "red"), soft_wrap=True)
    raise typer.Exit(code)
