"""Structured logs: readable on a terminal, JSON lines otherwise.

Event names are stable words; everything else is a field, and numbers stay numbers.
"""

import logging
import sys
from typing import Literal

import structlog


def configure(
    level: str = "INFO", style: Literal["auto", "console", "json"] = "auto", **context: str
) -> None:
    """Set up structlog for this process; `context` goes into every line (for instance `program="ingest"`).

    Logs go to standard error, so that standard output stays for answers.
    """
    pretty = style == "console" or (style == "auto" and sys.stderr.isatty())
    renderers: list[structlog.types.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if pretty
        else [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(**context)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")


def get() -> structlog.typing.FilteringBoundLogger:
    """A logger; bind what belongs to every line of yours."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger
