"""Mistakes in ingest's queries: which rows are computed, and what is remembered of it."""

from mutants.mutant import Mutant

PROGRESS = "isotherm_ingest/queries/progress.py"
OF_PROGRESS = "ingest/queries/test_progress.py::"
ANEW = OF_PROGRESS + "test_all_is_computed_anew_where_a_source_is_not_what_it_was"
RESULT = "isotherm_ingest/queries/result.py"
OF_RESULT = "ingest/queries/test_result.py::"

MUTANTS = (
    Mutant(
        "a row that was computed from a mirror that was behind stays old for ever",
        PROGRESS,
        "least[place] = min(",
        "least[place] = max(",
        OF_PROGRESS + "test_a_query_is_as_far_as_the_least_of_its_sources",
    ),
    Mutant(
        "a table that is still empty counts as having seen everything",
        PROGRESS,
        "place[0] in one.topics]",
        "place in positions_of(one.source.vector)]",
        OF_PROGRESS + "test_a_table_that_has_nothing_of_a_partition_yet_has_all_of_it_before_it",
    ),
    Mutant(
        "a source that was rolled back takes no row back",
        PROGRESS,
        "if head in one.lost:",
        "if head is one:",
        ANEW,
    ),
    Mutant(
        "a source that was made again takes no row back",
        PROGRESS,
        "if uuid != one.uuid:",
        "if not one.uuid:",
        ANEW,
    ),
    Mutant(
        "rows of a topic that was cut back stay",
        PROGRESS,
        "if was.source.cuts.get(position, 0) != now.source.cuts.get(position, 0):",
        "if not topic:",
        ANEW,
    ),
    Mutant(
        "rows of a topic that was made again stay",
        PROGRESS,
        'if was.source.topic_ids.get(topic, "") != now.source.topic_ids.get(topic, ""):',
        "if not topic:",
        ANEW,
    ),
    Mutant(
        "a source that goes on below where it was takes no row back",
        PROGRESS,
        "if new.get(position, 0) < offset:",
        "if new.get(position, offset) < 0:",
        ANEW,
    ),
    Mutant(
        "rows of another query stay",
        PROGRESS,
        "if was.query != now.query:",
        "if not now.query:",
        OF_PROGRESS + "test_another_query_gives_other_rows",
    ),
    Mutant(
        "the first new row of each partition touches nothing",
        PROGRESS,
        "`_offset` >= {seen",
        "`_offset` > {seen",
        OF_PROGRESS + "test_new_rows_are_those_that_a_query_has_not_seen",
    ),
    Mutant(
        "windows are final though one of the changelogs does not say how far it is",
        PROGRESS,
        "if None not in told else None",
        "if told else None",
        OF_PROGRESS + "test_the_event_time_is_the_least_that_all_changes_have_reached",
    ),
    Mutant(
        "a key by which no row is found surely is taken",
        RESULT,
        ' or kind in {"FLOAT", "DOUBLE", "BINARY"}',
        "",
        OF_RESULT + "test_what_no_table_can_have_is_refused_with_what_to_say",
    ),
    Mutant(
        "a column of another type is written as if it fitted",
        RESULT,
        "elif not fits(has, kind):",
        "elif not has:",
        OF_RESULT + "test_a_table_follows_its_query_where_it_can",
    ),
    Mutant(
        "of several rows of one key any is written",
        "isotherm_ingest/workers/rows.py",
        'pc.greater(counted.column("count_all"), 1)',
        'pc.less(counted.column("count_all"), 1)',
        "ingest/workers/test_rows.py::test_a_key_that_several_rows_have_is_named",
    ),
    Mutant(
        "two queries that read each other stand still in silence",
        PROGRESS,
        "return start in met",
        "return False",
        OF_PROGRESS + "test_a_table_that_is_computed_from_itself_is_found",
    ),
    Mutant(
        "keys of another type name other rows",
        RESULT,
        "return fits(wanted, kind) or fits(kind, wanted)",
        "return True",
        OF_RESULT + "test_keys_of_another_kind_are_told",
    ),
)
