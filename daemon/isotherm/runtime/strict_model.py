"""The parent of every model that a person writes, and the error that a bad one ends in."""

from pydantic import BaseModel, ConfigDict, RootModel


class ConfigError(ValueError):
    """A file that cannot be used; the text names place and remedy, one complaint a line."""


class StrictModel(BaseModel):
    """The parent of every model that a person writes in YAML: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class Properties(RootModel[dict[str, str | int | bool]]):
    """A file with properties of a client: secrets that stand apart from the rest of the configuration."""

    model_config = ConfigDict(frozen=True)
