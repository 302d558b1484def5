"""Structured logs: readable on a terminal, JSON lines otherwise.

Event names are stable words; everything else is a field, and numbers stay numbers.
"""

import contextlib
import dataclasses
import logging
import re
import sys
from typing import Any, Literal, TextIO

import structlog

from isotherm.runtime.secrets import without_secrets
from isotherm.runtime.text import printable


def configure(
    level: str = "INFO", style: Literal["auto", "console", "json"] = "auto", **context: str
) -> None:
    """Set up structlog for this process; `context` goes into every line (for instance `program="ingest"`).

    Logs go to standard error, so that standard output stays for answers.
    """
    pretty = style == "console" or (style == "auto" and sys.stderr.isatty())
    renderers: list[structlog.types.Processor] = (
        [_spelled_out, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if pretty
        else [_TRACEBACKS, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        # One write for each line: lines of two threads never run into each other.
        logger_factory=structlog.WriteLoggerFactory(_Forgiving(sys.stderr)),  # type: ignore[arg-type]  # all that it uses
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(**context)
    logging.basicConfig(
        level=logging.WARNING, stream=_Forgiving(sys.stderr), format="%(levelname)s %(name)s %(message)s"
    )


_TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)
"""Without the variables of each function, among which are the catalog's keys."""


class _Forgiving:
    """A stream that loses what it cannot write: a log on a full disk, or one that nobody reads, stops no work.

    All lines of the log go through it, also those of libraries, and lose what clients repeat of secrets.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write, if that is possible."""
        with contextlib.suppress(OSError):
            self._stream.write(without_secrets(text))

    def flush(self) -> None:
        """Flush, if that is possible."""
        with contextlib.suppress(OSError):
            self._stream.flush()


def _spelled_out(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Names that somebody else chose do nothing to a terminal, and begin no line of their own."""
    return {
        name: printable(value, "\n" if name == "traceback" else "") if isinstance(value, str) else value
        for name, value in event.items()
    }


def get() -> structlog.typing.FilteringBoundLogger:
    """A logger; bind what belongs to every line of yours."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger


def tell(observation: Any) -> None:
    """A listener that logs: the class is the event's name (`JobEnded` → `job_ended`), its fields are the fields."""
    fields = {
        field.name: _plain(getattr(observation, field.name)) for field in dataclasses.fields(observation)
    }
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(observation).__name__).lower()
    level = _LEVELS.get(name, logging.INFO)
    if fields.get("ok") is False:
        level = max(level, logging.WARNING)
    get().log(level, name, **fields)


_LEVELS = {
    "event_seen": logging.DEBUG,
    "partitions_recounted": logging.DEBUG,
    "scans_reported": logging.DEBUG,
    "source_heard": logging.DEBUG,
    "rewrites_run": logging.DEBUG,
    "round_planned": logging.DEBUG,
    "table_planned": logging.DEBUG,
    "event_rejected": logging.WARNING,
    "try_soon": logging.WARNING,
    "events_lost": logging.WARNING,
    "files_restored": logging.WARNING,
    "ledger_lost": logging.ERROR,
    "hold_rejected": logging.WARNING,
    "state_drifted": logging.ERROR,
    "table_halted": logging.ERROR,
    "table_failed": logging.ERROR,
    "table_gone": logging.WARNING,
}


def _plain(value: Any) -> Any:
    """A table by its name, an enumeration by its value."""
    if dataclasses.is_dataclass(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
