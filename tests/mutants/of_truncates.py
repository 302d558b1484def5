"""Mistakes in ingest: truncates of a source table."""

from mutants.mutant import Mutant

PLAN = "isotherm_ingest/plan/truncates.py"
OF_PLAN = "ingest/plan/test_truncates.py::"
NO_ORDER = OF_PLAN + "test_where_no_order_is_known_it_empties_nothing"
WORKERS = "isotherm_ingest/workers/truncates.py"
DECODING = "isotherm_ingest/workers/decoding.py"
WRITING = "isotherm_ingest/workers/writing.py"
OF_WORKERS = "ingest/workers/test_truncates.py::"
BATCHES = "isotherm_ingest/batches/batches.py"
OF_BATCHES = "ingest/batches/test_truncates.py::"
STATEMENT = "isotherm_ingest/decode/statement.py"
OF_DECODE = "ingest/decode/test_truncates.py::"
LOOKING = "isotherm_ingest/tables/looking.py"
OF_LOOKING = "ingest/tables/test_truncates.py::"
JAVA = "isotherm_ingest/tables/java_table.py"
OF_JAVA = "ingest/tables/test_emptied_tables.py::"

MUTANTS = (
    Mutant(
        "a truncate empties a table that has it behind its vector",
        PLAN,
        "if offset >= needs.get(one, 0)}",
        "if True}",
        OF_PLAN + "test_one_that_the_table_has_behind_it_is_none",
    ),
    Mutant(
        "a truncate of a topic with several partitions empties a mirror",
        PLAN,
        "!= 1 or mine - {position}:",
        "< 1 or mine - {position}:",
        NO_ORDER,
    ),
    Mutant(
        "partitions of which a table has rows count for nothing once they are gone",
        PLAN,
        "!= 1 or mine - {position}:",
        "!= 1:",
        NO_ORDER,
    ),
    Mutant(
        "a truncate of one shard empties all of them",
        PLAN,
        "if others and origin.own != topic:",
        "if False:",
        NO_ORDER,
    ),
    Mutant(
        "a truncate of a part empties the topic into which a router brings all of them",
        PLAN,
        "if not origin.is_of_one_source and not all(",
        "if False and not all(",
        NO_ORDER,
    ),
    Mutant(
        "a topic whose name ends as that of the source is taken for the source's",
        PLAN,
        'f".{topic}".endswith(f".{name}")',
        "topic.endswith(name)",
        NO_ORDER,
    ),
    Mutant(
        "where one of several truncates has a place, all are followed",
        PLAN,
        "for one in sorted(mine) if",
        "for one in sorted(mine)[1:] if",
        NO_ORDER,
    ),
    Mutant(
        "what stands before a truncate is written",
        DECODING,
        "changes, left = not_before(changes, table.emptied), not_before(left, table.emptied)",
        "pass",
        OF_WORKERS + "test_another_worker_leaves_out_what_is_of_before_it_too",
    ),
    Mutant(
        "a truncate leaves out what is of other partitions",
        WORKERS,
        'is_before = pc.and_(is_there, pc.less(change.field("offset"), offset))',
        'is_before = pc.less(change.field("offset"), offset)',
        OF_WORKERS + "test_another_worker_leaves_out_what_is_of_before_it_too",
    ),
    Mutant(
        "of several truncates the first counts",
        WORKERS,
        "max(offset, found.get((topic, partition), offset))",
        "min(offset, found.get((topic, partition), offset))",
        OF_WORKERS + "test_a_truncate_is_told_until_it_is_known_and_what_is_of_before_it_is_left_out",
    ),
    Mutant(
        "a truncate is a row of a mirror",
        DECODING,
        "without_truncates(changes) if table.key else changes",
        "changes",
        OF_WORKERS + "test_a_truncate_is_told_until_it_is_known_and_what_is_of_before_it_is_left_out",
    ),
    Mutant(
        "a batch of nothing but a truncate is not committed",
        DECODING,
        "        surveyor.look(changes)\n        yield from self._changes(",
        "        surveyor.look(without_truncates(changes))\n        yield from self._changes(",
        OF_WORKERS + "test_a_truncate_is_told_until_it_is_known_and_what_is_of_before_it_is_left_out",
    ),
    Mutant(
        "a truncate without a place is passed over in silence",
        DECODING,
        "return with_truncates(problems, changes, why_not) if why_not else problems",
        "return problems",
        OF_WORKERS + "test_where_its_order_is_not_known_it_is_a_letter_and_nothing_is_left_out",
    ),
    Mutant(
        "a large value that a truncate took is lost in silence",
        WRITING,
        "if table.emptied.below and (untold :=",
        "if False and (untold :=",
        OF_WORKERS + "test_a_large_value_that_was_in_a_row_that_is_gone_is_told",
    ),
    Mutant(
        "how many partitions there are is asked for before the truncate is read",
        BATCHES,
        "counts = {topic: self._count(topic) for topic, _ in newest}",
        "counts = {topic: 1 for topic, _ in newest}",
        OF_BATCHES + "test_a_partition_that_came_while_the_truncate_was_read_leaves_it_without_a_place",
    ),
    Mutant(
        "a truncate of a topic that is not listed for a moment is a dead letter",
        BATCHES,
        "for topic, count in counts.items() if not count]:",
        "for topic, count in counts.items() if False]:",
        OF_BATCHES + "test_a_truncate_waits_where_nobody_says_how_many_partitions_there_are",
    ),
    Mutant(
        "a batch is written though one of its workers did not know of a truncate",
        BATCHES,
        "if not report.samples and not report.truncates and not mixed:",
        "if not report.samples and not mixed:",
        OF_BATCHES + "test_what_stands_before_a_truncate_goes_and_what_stands_behind_it_stays",
    ),
    Mutant(
        "a change with an old row is a truncate",
        STATEMENT,
        '*(f"p.{name} IS NULL" for name in schema.images)])',
        '*(f"p.{name} IS NULL" for name in schema.images if name == "after")])',
        OF_DECODE + "test_a_truncate_is_told_in_each_format_and_one_with_a_row_is_none[mirror-with_schema]",
    ),
    Mutant(
        "a truncate of another source table empties a mirror",
        STATEMENT,
        'return f"CASE WHEN {differs} THEN {why} END" if differs else "NULL"',
        'return "NULL"',
        OF_DECODE + "test_a_truncate_of_another_table_empties_no_mirror",
    ),
    Mutant(
        "a changelog that takes no null is to take a truncate",
        STATEMENT,
        'return literal_in_sql(f"null_value:{required[0]}") if required else "NULL"',
        'return "NULL"',
        OF_DECODE + "test_a_changelog_that_takes_no_null_has_no_row_for_a_truncate[with_schema]",
    ),
    Mutant(
        "rows behind a truncate wait for those that it takes away",
        LOOKING,
        "is_empty=look.now.head is None or bool(look.emptied.below),",
        "is_empty=look.now.head is None,",
        OF_LOOKING + "test_a_table_with_one_place_in_kafka_counts_as_empty",
    ),
    Mutant(
        "a stream's word on its topics is taken for one on its source tables",
        LOOKING,
        'is_of_one = self._stream.source_parts == {"schema", "table"}',
        "is_of_one = self._stream.has_one_source",
        OF_LOOKING
        + "test_where_a_router_may_have_brought_several_tables_each_message_must_be_checked[shop.{table}]",
    ),
    Mutant(
        "a truncate empties a mirror of shards that was once one of them",
        LOOKING,
        'own = said.get(SOURCE_PROPERTY, "") if self._stream.has_one_source else ""',
        'own = said.get(SOURCE_PROPERTY, "")',
        OF_LOOKING + "test_rows_of_the_topic_of_before_are_of_the_table_s_own_source_where_it_has_one[many]",
    ),
    Mutant(
        "rows that somebody adds while a table is emptied go unseen",
        JAVA,
        "        overwrite.validateNoConflictingData()\n",
        "",
        OF_JAVA + "test_rows_that_come_meanwhile_are_not_taken_unseen[2-somebody else]",
    ),
    Mutant(
        "a truncate that is not followed is a dead letter like any other",
        "isotherm_ingest/tables/writer.py",
        "if one.startswith(UNORDERED)",
        "if False",
        OF_LOOKING + "test_a_truncate_that_is_not_followed_is_told_as_an_error",
    ),
    Mutant(
        "a table that does not say of which source its rows are is emptied",
        PLAN,
        "    return origin.doubt\n",
        '    return ""\n',
        NO_ORDER,
    ),
    Mutant(
        "a batch is written as emptied by a truncate that is gone",
        BATCHES,
        "if report.lost:",
        "if False:",
        OF_BATCHES + "test_a_truncate_that_its_topic_loses_between_the_two_reads_empties_nothing",
    ),
)
