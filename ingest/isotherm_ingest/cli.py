"""`isotherm-ingest run|validate|status|replay streams.yaml`."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from isotherm.runtime import logs
from isotherm.runtime.clean_stream import clean_errors
from isotherm.runtime.exit_codes import EXIT_BAD_CONFIG, EXIT_ERROR
from isotherm.runtime.kafka_client import PropertyError
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.version import versions_text
from isotherm_ingest.streams import StreamsConfig, load_streams

app = typer.Typer(
    name="isotherm-ingest",
    help="Change streams from Kafka into Iceberg, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Output(StrEnum):
    """How answers are written."""

    TABLE = "table"
    JSON = "json"


class Against(StrEnum):
    """What a file is held against."""

    REGISTRY = "registry"
    TOPICS = "topics"


StreamsFile = Annotated[Path, typer.Argument(help="streams.yaml", show_default=False)]


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(versions_text())
        raise typer.Exit


@app.callback()
def any_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_say_version,
            help="Print the versions of Isotherm, Python and the main libraries.",
        ),
    ] = False,
) -> None:
    """What holds for each command."""


@app.command()
def run(
    streams: StreamsFile,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
) -> None:
    """Run until SIGTERM or Ctrl-C; the batch in progress is finished first."""
    config = _loaded(streams, use_environment=True)
    logs.configure(log_level, program="ingest", pipeline=config.pipeline)
    missing = [jar for jar in config.spark.jars if "://" not in jar and not Path(jar).is_file()]
    if missing:
        _refuse(f"{streams}: spark.jars: {missing[0]} does not exist")
    if lost := _missing_certificates(config):
        _refuse(f"{streams}: {lost}")
    from isotherm_ingest.job import Job

    try:
        code = Job(config).run()
    except PropertyError as err:
        _refuse(f"{streams}: {err}")
        raise  # unreachable: _refuse exits
    raise typer.Exit(code)


@app.command()
def validate(
    streams: StreamsFile,
    environment: Annotated[
        bool,
        typer.Option("--environment/--no-environment", help="Let the environment override single values."),
    ] = True,
    against: Annotated[
        Against | None,
        typer.Option(
            help="Connect, and say what it would make of what is in the registry, or in the topics.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check streams.yaml, and say what it would do. Connects to nothing, unless --against is said; writes nothing.

    Exit code 0: it is fine, and all that is there fits; 1: something would be refused, or does not answer; 78: it is not fine.
    """
    config = _loaded(streams, use_environment=environment)
    typer.echo(
        f"{streams}: fine; pipeline {config.pipeline}, catalog {config.catalog.name}, every {config.every}"
    )
    for stream in (one for each in config.streams for one in each.per_table):
        spec = ", ".join(stream.partition_by) or "no partitions"
        every = f"; every {stream.every}" if stream.every else ""
        form = f"{stream.format} without envelope" if stream.has_events else stream.format
        typer.echo(f"  {stream.topics} -> {stream.table} ({stream.mode}; {form}; {spec}{every})")
    if lost := _missing_certificates(config):
        typer.echo(f"{streams}: {lost} on this machine; `run` refuses to begin without it", err=True)
    if against is not None:
        _compare(streams, config, against)


def _compare(streams: Path, config: StreamsConfig, where: Against) -> None:
    if where is Against.REGISTRY and config.registry is None:
        _refuse(f"{streams}: --against registry needs a `registry`")
    if lost := _missing_certificates(config):
        _refuse(f"{streams}: {lost}")
    from isotherm_ingest.commands.against import against
    from isotherm_ingest.commands.against_text import print_fit
    from isotherm_ingest.commands.terminal import plain_errors

    # The answer says all that the driver's own log would.
    logs.configure("CRITICAL", program="ingest", pipeline=config.pipeline)
    with _refused(streams), plain_errors():
        found = against(config, where.value)
    print_fit(config, found)
    if found.troubles:
        raise typer.Exit(EXIT_ERROR)


@app.command()
def status(
    streams: StreamsFile,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Text for people, or JSON.")
    ] = Output.TABLE,
) -> None:
    """Say how every table stands, worst first. Read only: a running driver is not disturbed.

    Exit code 0: all is well; 1: something needs a person, or does not answer.
    """
    from isotherm_ingest.commands.status import status as asked
    from isotherm_ingest.commands.status_text import as_json, print_status
    from isotherm_ingest.commands.terminal import plain_errors, print_json

    config = _loaded(streams, use_environment=True)
    logs.configure("WARNING", program="ingest", pipeline=config.pipeline)
    with _refused(streams), plain_errors():
        found = asked(config)
    if output is Output.JSON:
        print_json(as_json(found))
    else:
        print_status(found)
    if found.troubles:
        raise typer.Exit(EXIT_ERROR)


@app.command()
def replay(
    streams: StreamsFile,
    table: Annotated[str, typer.Option(help="The table, as `status` names it.", show_default=False)],
    reason: Annotated[str, typer.Option(help="Only dead letters with this reason.", show_default=False)] = "",
    since: Annotated[
        str,
        typer.Option(
            help="Only those that were sent since: a time of UTC, or a span as 90m.", show_default=False
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option(help="Say which letters could be tried, and write nothing.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option(help="Begin even where a driver of the pipeline may be running: it ends then.")
    ] = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Text for people, or JSON.")
    ] = Output.TABLE,
) -> None:
    """Write the dead letters of a table whose cause was mended. Stop the pipeline's job before, and start it afterwards.

    Exit code 0: each of them is settled; 1: some are not, or something does not answer; 3: a driver was started meanwhile.
    """
    from isotherm_ingest.commands.replay_text import as_json, print_replayed, since_ms
    from isotherm_ingest.commands.terminal import print_json
    from isotherm_ingest.replay.command import replayed
    from isotherm_ingest.replay.outcome import Asked

    config = _loaded(streams, use_environment=True)
    logs.configure("WARNING", program="ingest", pipeline=config.pipeline)
    if lost := _missing_certificates(config):
        _refuse(f"{streams}: {lost}")
    try:
        asked = Asked(table, reason, since_ms(since), dry_run=dry_run, take_over=take_over)
    except ValueError as err:
        raise typer.BadParameter(str(err), param_hint="--since") from err
    with _refused(streams):
        found = replayed(config, asked)
    if output is Output.JSON:
        print_json(as_json(found))
    else:
        print_replayed(found)
    if found.is_open:
        raise typer.Exit(EXIT_ERROR)


@contextmanager
def _refused(streams: Path) -> Iterator[None]:
    """Properties that librdkafka does not take are a fault of the file."""
    try:
        yield
    except PropertyError as err:
        _refuse(f"{streams}: {err}")


def _missing_certificates(config: StreamsConfig) -> str:
    ca_file = None if config.registry is None else config.registry.ca_file
    return "" if ca_file is None or ca_file.is_file() else f"registry.ca_file: {ca_file} does not exist"


def _loaded(path: Path, *, use_environment: bool) -> StreamsConfig:
    try:
        return load_streams(path, None if use_environment else {})
    except ConfigError as err:
        _refuse(str(err))
        raise  # unreachable: _refuse exits


def _refuse(message: str) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(EXIT_BAD_CONFIG)


def main() -> None:
    """Entry point."""
    clean_errors()
    app()


if __name__ == "__main__":
    main()
