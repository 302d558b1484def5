"""Messages of Debezium's connector for MongoDB, made after its documentation. No server has sent them."""

from support.connectors import with_schema

JSON = {"type": "string", "optional": True, "name": "io.debezium.data.Json", "version": 1}
SOURCE = {
    "version": "3.6.1.Final",
    "connector": "mongodb",
    "name": "fulfillment",
    "ts_ms": 1700000000000,
    "snapshot": "false",
    "db": "inventory",
    "sequence": None,
    "collection": "customers",
    "ord": 31,
    "lsid": None,
    "txnNumber": None,
    "wallTime": None,
}
DESCRIPTION = {"removedFields": None, "truncatedArrays": None, "updatedFields": '{"first_name": "Anne"}'}


def said_of_source():
    return [
        {"type": "int64" if isinstance(value, int) else "string", "optional": True, "field": name}
        for name, value in SOURCE.items()
    ]


def change(op, key, *, before=None, after=None, update=None, **source):
    """A change of a document: of a key and documents, as texts."""
    fields = [
        {**JSON, "field": "before"},
        {**JSON, "field": "after"},
        {
            "type": "struct",
            "fields": [{"type": "string", "optional": True, "field": name} for name in DESCRIPTION],
            "optional": True,
            "name": "io.debezium.connector.mongodb.changestream.updatedescription",
            "field": "updateDescription",
        },
        {
            "type": "struct",
            "fields": said_of_source(),
            "name": "io.debezium.connector.mongo.Source",
            "field": "source",
        },
        {"type": "string", "optional": True, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ]
    payload = {
        "before": before,
        "after": after,
        "updateDescription": update,
        "source": SOURCE | source,
        "op": op,
        "ts_ms": 1700000000500,
    }
    of_key = [{"type": "string", "optional": False, "field": "id"}]
    name = "fulfillment.inventory.customers"
    return with_schema(f"{name}.Key", of_key, {"id": key}), with_schema(f"{name}.Envelope", fields, payload)
