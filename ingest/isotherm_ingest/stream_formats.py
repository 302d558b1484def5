"""How a stream says in what format its messages are written, and where the registry of their schemas is."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from isotherm.runtime.strict_model import StrictModel
from isotherm_ingest.decode.avro import Avro, Framing
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import OTHERS_COLUMN, Others
from isotherm_ingest.decode.declared_json import DeclaredJson, columns_of
from isotherm_ingest.decode.declared_types import declared
from isotherm_ingest.decode.formats import Format
from isotherm_ingest.tables.reserved_columns import RESERVED_COLUMNS

_MOMENTS = ("TIMESTAMP", "TIMESTAMP_NTZ")
_TAKEN_BY = {"hours": _MOMENTS, **dict.fromkeys(("days", "months", "years"), ("DATE", *_MOMENTS))}
"""By transform of a partition spec, the types that it takes."""


def _type(text: str) -> str:
    declared(text)
    return text


class RegistryConfig(StrictModel):
    """The registry of Avro schemas. The driver alone asks it."""

    url: str
    """Where Confluent's API is: `https://registry.example.com`, of Apicurio `https://…/apis/ccompat/v7`."""
    framing: Framing = "confluent"
    """Where a message says its schema, which its bytes do not tell. `confluent`: in four bytes behind a zero. `eight-bytes`:
    in eight, as older serializers of Apicurio write it. `headers`: in a header (`apicurio.value.globalId`, `….contentId`)."""
    username: str = ""
    """Login, where the registry asks for one. Without it there is none."""
    password: SecretStr = SecretStr("")
    """Its password, or the secret of an API key; better from the environment: ISOTHERM_INGEST_REGISTRY__PASSWORD."""
    ca_file: Path | None = None
    """Certificates that are trusted in place of the system's, in PEM."""

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        # Not of the field alone: then a complaint would repeat it, with what may be a password.
        if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", self.url):
            raise ValueError("`url` must be an address without a login, such as https://registry.example.com")
        try:
            "".join(self.login or ()).encode("latin-1")
        except UnicodeEncodeError:
            # Without the cause, which would show it.
            raise ValueError("`username` and `password` cannot have characters beyond Latin-1") from None
        return self

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password."""
        return (self.username, self.password.get_secret_value()) if self.username else None


class FormatOptions(StrictModel):
    """What a stream says of its format."""

    format: Literal["debezium-json", "json", "avro"] = "debezium-json"
    """`debezium-json`: change events with their schemas, as Kafka Connect's JsonConverter writes them. `json`: JSON without
    schemas, whose types `columns` says. `avro`: Avro, with schemas in the `registry`."""
    envelope: Literal["debezium", "none"] = "debezium"
    """Of `json` and `avro`: whether a message is a change event of Debezium (`before`, `after`, `source`, `op`), or, with `none`, a row
    of its own, as sensors and clicks send them."""
    columns: dict[str, Annotated[str, AfterValidator(_type)]] = Field(default_factory=dict)
    """Of `json`: names and types of the columns, in the words of Spark's DDL. docs/ingest.md says what each takes."""
    others: Others = "ignore"
    """Of `json`: what becomes of fields that are no columns. `ignore` leaves them out, `dead_letter` sends the whole message
    away, `text` keeps them as JSON in a column `_others`."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.format != "json":
            of_json = {"columns", "others"} | ({"envelope"} if self.format == "debezium-json" else set())
            if said := of_json & self.model_fields_set:
                raise ValueError(f"`{min(said)}` is of `format: json`: here the messages say it themselves")
            return self
        if not self.columns:
            raise ValueError("`format: json` needs `columns`: the messages do not say their types")
        if OTHERS_COLUMN in {name.lower() for name in self.columns}:
            raise ValueError(
                f"`{OTHERS_COLUMN}` is the column of `others: text`, and cannot be one of `columns`"
            )
        columns_of(self.columns.items(), self.others)
        return self

    def check_declared(self, named: Mapping[str, Iterable[str]], mode: str, names: Mapping[str, str]) -> None:
        """Check declared columns against what else a stream says.

        Args:
            named: names of columns, by the option that has them.
            mode: of the stream.
            names: of the source, in lower case, that the table has other ones for, with those.

        Raises:
            ValueError: a column is not there, or a table cannot have it.
        """
        called = [names.get(name.lower(), name) for name in self.columns]
        given = {name.lower(): name for name in (*names.values(), *called)}
        own = RESERVED_COLUMNS | (CHANGELOG_COLUMNS.keys() if mode == "changelog" else set())
        if clash := sorted(given.keys() & own):
            raise ValueError(
                f"column {given[clash[0]]!r} has the name of one that Iceberg, or a changelog, has of its own"
            )
        known = {name.lower() for name in (*self.columns, *called)}
        for option, columns in named.items():
            for column in columns if self.columns else ():
                if column and column.lower() not in known:
                    raise ValueError(f"`{option}` names {column!r}, which is none of `columns`")

    def check_times(self, fields: Iterable[tuple[str, str, str]], names: Mapping[str, str]) -> None:
        """Check that a partition spec asks the time only of declared columns that have one, or no table is ever made.

        Args:
            fields: of the spec, the text, column and transform of each.
            names: as of `check_declared`.

        Raises:
            ValueError: a column has none.
        """
        types = self._types(names)
        for text, column, transform in fields:
            taken, found = _TAKEN_BY.get(transform), types.get(column.lower())
            if taken and found and found not in taken:
                raise ValueError(f"`partition_by` has {text!r}, but {column!r} is {found}")

    def check_types(
        self, option: str, columns: Iterable[str], refused: tuple[str, ...], names: Mapping[str, str]
    ) -> None:
        """Check that declared columns which an option names are of no type that begins so. Raises ValueError."""
        types = self._types(names)
        for column in columns:
            if (found := types.get(names.get(column.lower(), column).lower(), "")).startswith(refused):
                raise ValueError(f"`{option}` cannot have {column!r}, which is {found}")

    def _types(self, names: Mapping[str, str]) -> dict[str, str]:
        """By column of the table, in lower case, the type that is declared for it."""
        return {
            names.get(name.lower(), name).lower(): declared(text)[0].type
            for name, text in self.columns.items()
        }

    def message_format(self, registry: RegistryConfig | None) -> Format:
        """What takes the messages apart."""
        if self.format == "debezium-json":
            return DebeziumJson()
        if self.format == "avro":
            return Avro("confluent" if registry is None else registry.framing, self.envelope == "debezium")
        return DeclaredJson(tuple(self.columns.items()), self.envelope == "debezium", self.others)

    @property
    def has_events(self) -> bool:
        """Whether each message is a row, which says nothing of a source and of what happened before."""
        return self.envelope == "none"
