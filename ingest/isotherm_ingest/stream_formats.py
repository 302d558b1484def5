"""How a stream says in what format its messages are written."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from isotherm.runtime.strict_model import StrictModel
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.debezium_schema import OTHERS_COLUMN, Others
from isotherm_ingest.decode.declared_json import DeclaredJson, columns_of
from isotherm_ingest.decode.declared_types import declared
from isotherm_ingest.decode.formats import Format


def _type(text: str) -> str:
    declared(text)
    return text


class FormatOptions(StrictModel):
    """What a stream says of its format."""

    format: Literal["debezium-json", "json"] = "debezium-json"
    """`debezium-json`: change events with their schemas, as Kafka Connect's JsonConverter writes them. `json`: JSON without
    schemas, whose types `columns` says."""
    envelope: Literal["debezium", "none"] = "debezium"
    """Of `json`: whether a message is a change event of Debezium (`before`, `after`, `source`, `op`), or, with `none`, a row
    of its own, as sensors and clicks send them."""
    columns: dict[str, Annotated[str, AfterValidator(_type)]] = Field(default_factory=dict)
    """Of `json`: names and types of the columns, in the words of Spark's DDL. docs/ingest.md says what each takes."""
    others: Others = "ignore"
    """Of `json`: what becomes of fields that are no columns. `ignore` leaves them out, `dead_letter` sends the whole message
    away, `text` keeps them as JSON in a column `_others`."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.format != "json":
            said = {"envelope", "columns", "others"} & self.model_fields_set
            if said:
                raise ValueError(
                    f"`{min(said)}` is of `format: json` alone: here the messages say it themselves"
                )
            return self
        if not self.columns:
            raise ValueError("`format: json` needs `columns`: the messages do not say their types")
        if OTHERS_COLUMN in {name.lower() for name in self.columns}:
            raise ValueError(
                f"`{OTHERS_COLUMN}` is the column of `others: text`, and cannot be one of `columns`"
            )
        columns_of(self.columns.items(), self.others)
        return self

    @property
    def message_format(self) -> Format:
        """What takes the messages apart."""
        if self.format == "debezium-json":
            return DebeziumJson()
        return DeclaredJson(tuple(self.columns.items()), self.envelope == "debezium", self.others)

    @property
    def has_events(self) -> bool:
        """Whether each message is a row, which says nothing of a source and of what happened before."""
        return self.format == "json" and self.envelope == "none"
