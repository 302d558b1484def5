"""Mistakes of ingest with other databases than PostgreSQL, and with a real registry's ids."""

from mutants.mutant import Mutant

DOCUMENTS = "isotherm_ingest/decode/documents.py"
AVRO = "isotherm_ingest/decode/avro.py"
REGISTRY = "isotherm_ingest/registry.py"
OF_DOCUMENTS = "ingest/decode/databases/test_mongodb.py::"
OF_REGISTRY = "ingest/test_registry.py::"
IS_A_ROW = OF_DOCUMENTS + "test_a_document_is_a_row_of_its_id_and_its_text[1004]"
IS_UNKNOWN = OF_REGISTRY + "test_a_global_id_that_is_garbage_is_unknown_whatever_the_404_says"

MUTANTS = (
    Mutant(
        "a document without a key is a row without an id",
        DOCUMENTS,
        "CASE WHEN e.op IS NOT NULL AND id IS NULL THEN",
        "CASE WHEN false THEN",
        OF_DOCUMENTS + "test_a_changelog_has_documents_and_needs_keys_too",
    ),
    Mutant(
        "a document that is deleted by its key alone stays",
        DOCUMENTS,
        """ + (" OR e.op = 'd'" if name == "before" else "")""",
        "",
        IS_A_ROW,
    ),
    Mutant(
        "the key of a document is read of deletes alone",
        "isotherm_ingest/decode/debezium_json.py",
        " and OF_DOCUMENTS not in schema",
        "",
        IS_A_ROW,
    ),
    Mutant(
        "the key of a document in Avro is read of deletes alone",
        AVRO,
        "(are_documents or _DELETE in value)",
        "_DELETE in value",
        OF_DOCUMENTS + "test_documents_in_avro_are_the_same_rows[few]",
    ),
    Mutant(
        "a collection has no name",
        "isotherm_ingest/decode/debezium_schema.py",
        '(collection if table == "" else table)',
        "table",
        OF_DOCUMENTS + "test_a_table_is_named_for_the_database_and_the_collection",
    ),
    Mutant(
        "a document of another collection is one of the first one's",
        DOCUMENTS,
        '"table": "collection"',
        '"table": "nothing"',
        OF_DOCUMENTS + "test_what_is_no_row_is_a_dead_letter_alone",
    ),
    Mutant(
        "a global id of Apicurio is one of a content",
        AVRO,
        "str(sign * int.from_bytes(number))",
        "str(int.from_bytes(number))",
        "ingest/decode/test_avro.py::test_or_in_a_header",
    ),
    Mutant(
        "a global id of Apicurio is asked for where contents are",
        REGISTRY,
        "own_api = None if number >= 0 or self._config is None else _own_api(self._config.url)",
        "own_api = None",
        OF_REGISTRY + "test_a_global_id_is_asked_for_by_apicurios_own_api",
    ),
    Mutant(
        "garbage in place of a global id has its topic wait for ever",
        REGISTRY,
        "abs(number) > MAX_ID",
        "number > MAX_ID",
        IS_UNKNOWN,
    ),
    Mutant(
        "a global id that Apicurio does not know has its topic wait for ever",
        REGISTRY,
        ' or told.get("name") in _UNKNOWN_HERE',
        "",
        OF_REGISTRY + "test_a_global_id_that_is_unknown_is_waited_for_a_while[-9]",
    ),
    Mutant(
        "a schema of Protobuf behind a global id has its topic wait for ever",
        REGISTRY,
        "    if not isinstance(told, (dict, list, str)):\n        raise SchemaError",
        "    if not isinstance(told, (dict, list, str)):\n        raise RegistryAwayError",
        OF_REGISTRY + "test_what_is_no_schema_is_told_from_no_answer",
    ),
)
