"""Mistakes in what becomes of a message that two tables have."""

from mutants.mutant import Mutant

DECODING = "isotherm_ingest/workers/decoding.py"
IN_WORKERS = "ingest/workers/test_decoding.py::"
ROUTING = "isotherm_ingest/batches/routing.py"
IN_BATCHES = "ingest/batches/test_both_tables.py::"
OWNERS = "isotherm_ingest/batches/owners.py"

MUTANTS = (
    Mutant(
        "a message that neither table can have is a dead letter of each",
        DECODING,
        "set.intersection(*places) if len(places) > 1 else set()",
        "set()",
        IN_WORKERS
        + "test_a_message_that_two_tables_have_is_in_both_and_one_that_neither_can_have_is_one_letter",
    ),
    Mutant(
        "a letter that was left out is counted",
        DECODING,
        "self._letters[name] -= len(rows) - len(kept)",
        "pass",
        IN_WORKERS
        + "test_a_message_that_two_tables_have_is_in_both_and_one_that_neither_can_have_is_one_letter",
    ),
    Mutant(
        "a letter does not say which of two tables lacks the message",
        DECODING,
        'pc.if_else(is_common, rows["problem"], named)',
        'rows["problem"]',
        IN_WORKERS + "test_a_message_that_only_one_of_two_tables_can_have_is_a_letter_that_names_the_other",
    ),
    Mutant(
        "of two tables one that fails keeps the other from being written",
        DECODING,
        "for name in self._task.routes.get(route, ())]",
        "for name in self._task.routes.get(route, ())[:1]]",
        IN_WORKERS + "test_one_of_two_tables_that_cannot_be_decoded_leaves_the_other",
    ),
    Mutant(
        "what one of two tables cannot have is in neither",
        ROUTING,
        "tables = {one: [route.table for route in routes if route.table] for one, routes in mine.items()}",
        "tables = {one: [r.table for r in rs if r.table and all(x.table for x in rs)] for one, rs in mine.items()}",
        IN_BATCHES + "test_what_belongs_to_one_of_them_alone_is_a_letter_that_names_the_other",
    ),
    Mutant(
        "a changelog beside a mirror is taken for the mirror of another table after a restart",
        OWNERS,
        "[*likely, *beside, *able]",
        "[*able]",
        IN_BATCHES + "test_a_table_that_is_there_says_which_of_both_it_is",
    ),
    Mutant(
        "after a restart a changelog beside a mirror has no topic",
        OWNERS,
        "streams = {topic: self._config.streams_of(topic) for topic in topics}",
        "streams = {topic: self._config.streams_of(topic)[:1] for topic in topics}",
        IN_BATCHES + "test_each_of_both_is_missed_when_a_driver_begins",
    ),
)
