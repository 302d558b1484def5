"""The options that most commands have.

Only what `isotherm --help` needs stands here and in `isotherm.cli`: it answers before anything large is imported.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Output(StrEnum):
    """How answers are written."""

    TABLE = "table"
    JSON = "json"


ConfigOption = Annotated[
    Path,
    typer.Option("--config", "-c", envvar="ISOTHERM_CONFIG", help="The daemon's configuration."),
]

OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Text for people, or JSON.")]

DEFAULT_CONFIG = Path("isotherm.yaml")

CatalogOption = Annotated[
    str, typer.Option(help="Name of the catalog in ~/.pyiceberg.yaml, or any name beside --catalog-uri.")
]
CatalogUriOption = Annotated[
    str | None, typer.Option(help="Where it is: http://localhost:8181, thrift://…, sqlite:///…")
]
WarehouseOption = Annotated[str | None, typer.Option(help="Its warehouse, where it has several.")]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option("--property", help="One of PyIceberg's for the catalog, as NAME=VALUE: s3.endpoint=…"),
]

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Files, or folders of them, as one set. Without it: the folder that isotherm.yaml names."
    ),
]
