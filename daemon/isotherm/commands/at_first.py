"""`isotherm init` and `isotherm doctor`, each with what it takes: for the first hour, and when something is wrong.

What they do is imported when they are called.
"""

from pathlib import Path
from typing import Annotated

import typer

from isotherm.commands.options import (
    DEFAULT_CONFIG,
    CatalogOption,
    CatalogUriOption,
    ConfigOption,
    Output,
    OutputOption,
    PropertyOption,
    WarehouseOption,
)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder; it is made if it is missing.")],
    catalog: CatalogOption = "lake",
    catalog_uri: CatalogUriOption = None,
    warehouse: WarehouseOption = None,
    property_: PropertyOption = None,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A broker. Without it: to be filled in later.")
    ] = None,
) -> None:
    """Write a configuration and a first policy for your lake.

    It looks at the catalog (see `look`), changes nothing there, and overwrites no file.
    """
    from isotherm.commands.init import write_first_files

    named = {"uri": catalog_uri, "warehouse": warehouse}
    given = [f"{name}={value}" for name, value in named.items() if value is not None]
    write_first_files(folder, catalog=catalog, properties=[*given, *(property_ or [])], kafka=kafka)


def doctor(
    file: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="The same as --config.", show_default=False)
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Write all that helps whoever is to help into this zip file, without secrets."),
    ] = None,
    write_test: Annotated[
        bool,
        typer.Option(
            "--write-test", help="Write a small file below a table of each store, and delete it again."
        ),
    ] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check what the daemon needs: files, Kafka, catalog, stores.

    Read only, but for --write-test. Exits with 1 if something needs a person.
    """
    from isotherm.commands.doctor.show import examine

    code = examine(file or config, write_test=write_test, bundle=bundle, output=output)
    raise typer.Exit(code)
