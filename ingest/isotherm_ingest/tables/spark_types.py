"""Iceberg's types as Spark's DDL says them."""

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from isotherm_ingest.sql.text import quoted


def spark_type(kind: IcebergType) -> str:
    """An Iceberg type as Spark's DDL says it."""
    match kind:
        case ListType():
            return f"ARRAY<{spark_type(kind.element_type)}>"
        case MapType():
            return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.value_type)}>"
        case StructType():
            fields = (f"{quoted(one.name)}: {spark_type(one.field_type)}" for one in kind.fields)
            return f"STRUCT<{', '.join(fields)}>"
        case DecimalType():
            return f"DECIMAL({kind.precision},{kind.scale})"
        case _:
            return _SPARK_TYPES.get(type(kind), str(kind))


_SPARK_TYPES: dict[type, str] = {
    IntegerType: "INT",
    LongType: "BIGINT",
    StringType: "STRING",
    UUIDType: "STRING",
    BooleanType: "BOOLEAN",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    DateType: "DATE",
    TimestampType: "TIMESTAMP_NTZ",
    TimestamptzType: "TIMESTAMP",
    BinaryType: "BINARY",
}
