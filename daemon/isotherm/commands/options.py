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

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Files, or folders of them, as one set. Without it: the folder that isotherm.yaml names."
    ),
]
