"""Mistakes in ingest: which messages become rows of which table."""

from mutants.mutant import Mutant

OWNERS = "isotherm_ingest/batches/owners.py"
OF_OWNERS = "ingest/batches/test_owners.py::"

MUTANTS = (
    Mutant(
        "a message of another stream's topic chooses the table whose rows it deletes",
        OWNERS,
        "if owner is stream or not stream.source_parts:",
        "if True:",
        OF_OWNERS + "test_a_message_of_another_streams_topic_neither_writes_a_mirror_nor_stops_it_"
        "whenever_the_driver_begins",
    ),
    Mutant(
        "whose a table is depends on which of its topics comes first",
        OWNERS,
        "if stream is not None and may_be(stream.table, name):",
        "if False:",
        OF_OWNERS + "test_a_table_says_itself_whose_it_is_and_no_order_of_its_topics_does",
    ),
    Mutant(
        "a table that could not be read is written by the stream that asks first",
        OWNERS,
        "if owner is not None and owner is not self._owners[name]:",
        "if False:",
        OF_OWNERS
        + "test_a_table_of_which_the_catalog_did_not_say_whose_it_is_waits_instead_of_being_written_as_anothers",
    ),
    # The port, which the daemon has too
    Mutant(
        "a client that asks much and reads nothing takes a thread",
        "runtime/http_server.py",
        'request.headers["CONNECTION"] = "close"',
        "pass",
        "runtime/test_http_server.py::test_a_connection_is_answered_once",
    ),
)
