"""Mistakes in ingest: which messages become rows of which table."""

from mutants.mutant import Mutant

LAKE = "isotherm_ingest/tables/lake.py"
OWNERS = "isotherm_ingest/batches/owners.py"
OF_OWNERS = "ingest/batches/test_owners.py::"
OF_DAMAGE = "ingest/batches/test_damaged_messages.py::"
TABLES = "isotherm_ingest/batches/tables.py"
STATE = "isotherm_ingest/batches/table_state.py"
OF_UNLISTED = "ingest/batches/test_unlisted_topics.py::"
OF_HALTED = "ingest/batches/test_halted_tables.py::"
OF_MADE_AGAIN = "ingest/batches/test_tables_made_again.py::"
OF_REPLACED = "ingest/batches/test_replaced_topics.py::"
OF_NEW_PARTITIONS = "ingest/batches/test_new_partitions.py::"
OF_GROWING = "ingest/batches/test_growing_topics.py::"
OF_CUTS = "ingest/batches/test_cut_back_topics.py::"
OF_SHOWN_CUTS = "ingest/batches/test_cut_backs_that_tables_show.py::"
OF_LATER_TOPICS = "ingest/batches/test_later_topics.py::"
OF_AVRO = "ingest/decode/test_avro_values.py::"
OF_AVRO_STREAMS = "ingest/batches/test_avro_streams.py::"
MACRO = 'f"CREATE MACRO {macro}"'
OF_DECLARED = "ingest/decode/test_declared_json.py::"
REFUSALS = "isotherm_ingest/tables/refusals.py"
OF_REFUSALS = "ingest/tables/test_refusals.py::"

MUTANTS = (
    Mutant(
        "a new partition that never had a leader is not waited for",
        "isotherm_ingest/plan/topics.py",
        "        if any(number < lowest and (self.name, number) not in self.through for number in listed):\n",
        "        if False:\n",
        "ingest/batches/test_growing_topics.py::"
        "test_a_new_partition_that_never_had_a_leader_is_read_before_newer_ones",
    ),
    Mutant(
        "a first message whose source is garbage speaks for its topic",
        "isotherm_ingest/decode/debezium_json.py",
        'if names_a_table(payload["source"]):',
        "if True:",
        "ingest/decode/test_samples.py::test_a_garbage_source_is_no_sample_where_there_is_another",
    ),
    Mutant(
        "a source without a name speaks for its topic until a restart",
        "isotherm_ingest/batches/routing.py",
        'problem_of("no_schema", err), passes=True)\n        except SchemaError',
        'problem_of("no_schema", err))\n        except SchemaError',
        "ingest/batches/test_routing.py::test_a_source_without_a_name_is_learned_anew_with_the_next_batch",
    ),
    Mutant(
        "an intent names nothing until the old rows are found, however long that takes",
        "isotherm_ingest/tables/writer.py",
        "intent.renew(upsert.row_partitions)",
        "intent.renew(frozenset())",
        "ingest/tables/test_writer.py::"
        "test_an_intent_names_what_was_written_before_anything_is_located_and_then_what_was_found",
    ),
    Mutant(
        "an upsert that is computed again forgets while it locates what it had named before",
        "isotherm_ingest/tables/writer.py",
        "tuple(sorted(partitions | set(before)))",
        "tuple(sorted(partitions))",
        "ingest/tables/test_writer.py::test_a_write_that_is_computed_again_names_all_that_it_named_before",
    ),
    Mutant(
        "an upsert that found rows beside those of its intent goes on in the table of before",
        "isotherm_ingest/tables/writer.py",
        "if intent.name(located.partitions) and looks < MOST_LOOKS and upsert.is_overtaken():",
        "if intent.name(located.partitions) and False:",
        "ingest/tables/test_writer.py::"
        "test_where_somebody_commits_while_rows_are_read_the_table_is_looked_at_once_more",
    ),
    Mutant(
        "each append of others has all rows of an upsert located once more",
        "isotherm_ingest/tables/java_table.py",
        'if snapshot.operation() != "append":',
        "if True:",
        "ingest/tables/test_upsert_races.py::test_who_takes_files_away_after_the_table_was_loaded_is_seen",
    ),
    Mutant(
        "whether an upsert was overtaken is told by the table as it was loaded",
        "isotherm_ingest/tables/upsert.py",
        "        self._java.refresh()\n",
        "",
        "ingest/tables/test_upsert_races.py::test_who_takes_files_away_after_the_table_was_loaded_is_seen",
    ),
    Mutant(
        "a table that is looked at once more counts as a commit that was lost",
        "isotherm_ingest/tables/writer.py",
        "if self.now is None or not self.was_lost:",
        "if self.now is None:",
        "ingest/tables/test_writer.py::"
        "test_where_somebody_commits_while_rows_are_read_the_table_is_looked_at_once_more",
    ),
    Mutant(
        "an upsert is located in the table of before its batch was read",
        "isotherm_ingest/tables/writer.py",
        "if looks == 1 and upsert.is_overtaken():",
        "if False:",
        "ingest/tables/test_writer.py::"
        "test_where_somebody_commits_while_rows_are_read_the_table_is_looked_at_once_more",
    ),
    Mutant(
        "a table of whose owner each row is to be a file has all others wait for them",
        "isotherm_ingest/workers/files.py",
        "BYTES_DEFAULT, LEAST_FILE_BYTES)",
        "BYTES_DEFAULT, 1)",
        "ingest/workers/test_files.py::"
        "test_a_table_has_no_file_and_no_row_group_for_each_row_whatever_its_owner_says",
    ),
    Mutant(
        "what the JVM does not know of a database's address is dropped, as the look at its certificate",
        "isotherm_ingest/jdbc.py",
        "if name not in known or value not in",
        "if name not in known:\n            continue\n        if value not in",
        "ingest/test_streams.py::"
        "test_what_an_address_says_of_its_connection_is_refused_where_the_jvm_would_not_hear_it",
    ),
    Mutant(
        "a manifest has the driver read as many entries as its owner likes",
        "isotherm_ingest/announce/events.py",
        "        if left < 0:\n",
        "        if False:\n",
        "ingest/announce/test_events.py::test_a_manifest_has_as_many_entries_as_it_has_whatever_its_list_says",
    ),
    Mutant(
        "each table has a session, and a catalog with connections of its own in the JVM",
        "isotherm_ingest/tables/sessions.py",
        'if not hasattr(self._local, "session"):',
        "if True:",
        "ingest/tables/test_sessions.py::"
        "test_a_thread_has_one_session_however_many_tables_it_writes_and_no_other_thread_has_it",
    ),
    Mutant(
        "a history that goes in a circle is walked for ever, while all tables wait",
        LAKE,
        "            if current in seen:\n",
        "            if False:\n",
        "ingest/tables/test_lake.py::"
        "test_a_history_that_goes_in_a_circle_is_refused_in_words_wherever_it_is_walked",
    ),
    Mutant(
        "a batch that nobody can unpack stops its topic for ever",
        "isotherm_ingest/batches/driver.py",
        "if len(topics) == 1 and not self._damage.explains(err, mine, kafka):",
        "if len(topics) == 1:",
        OF_DAMAGE + "test_a_batch_that_nobody_can_unpack_halts_its_table_alone_and_says_what_to_do",
    ),
    Mutant(
        "what nobody can unpack is passed by in silence",
        "isotherm_ingest/plan/resume_or_halt.py",
        "holes.append(Hole(Lost.DAMAGED, position, after, beyond))",
        "pass",
        OF_DAMAGE + "test_a_batch_that_nobody_can_unpack_halts_its_table_alone_and_says_what_to_do",
    ),
    Mutant(
        "a dropped table of which the marks had no room is made again in silence",
        "isotherm_ingest/known_in_marks.py",
        "was = announced(table) if unsaid else None",
        "was = None",
        "ingest/batches/test_new_drivers.py::test_a_dropped_table_is_told_though_the_marks_had_no_room_for_it",
    ),
    Mutant(
        "of a topic that was cut back, an offset counts though another message has it",
        "isotherm_ingest/tables/offset_vector.py",
        "said = source.cuts.get(position, 0), offset",
        "said = 0, offset",
        OF_CUTS + "test_what_comes_in_the_place_of_lost_messages_is_written_once_somebody_may",
    ),
    Mutant(
        "a token that knows of a later cut than the marks is newer than all that its table gets from then on",
        "isotherm_ingest/plan/resume_or_halt.py",
        "newest_of(since, kafka.newest_cuts(judged)),",
        "{**since, **kafka.newest_cuts(judged)},",
        OF_SHOWN_CUTS + "test_a_table_that_has_written_behind_a_cut_which_no_mark_tells_of_outgrows_that",
    ),
    Mutant(
        "a table whose token has expired while it was halted is filled with all that it has",
        "isotherm_ingest/plan/resume_or_halt.py",
        "hole.why == Lost.ROLLED_BACK and not is_untold",
        "hole.why == Lost.ROLLED_BACK",
        OF_CUTS + "test_a_table_whose_token_has_expired_while_a_cut_halted_it_gets_nothing_twice",
    ),
    Mutant(
        "a halted table is passed by with what is for others, and forgets that it was halted",
        STATE,
        "if self.known is None or self.is_halted:\n            return\n        mine = [",
        "if self.known is None:\n            return\n        mine = [] and [",
        OF_CUTS + "test_a_table_that_a_cut_has_halted_stays_so_however_many_messages_of_others_pass_it",
    ),
    Mutant(
        "a cut that only a table shows is in no mark until the turn is over",
        TABLES,
        "        self._keep_cuts()\n",
        "",
        OF_SHOWN_CUTS
        + "test_a_cut_that_a_table_shows_in_a_batch_is_marked_before_any_table_is_written_behind_it",
    ),
    Mutant(
        "a leader that the others have left behind is believed that the topic was cut back",
        "isotherm_ingest/batches/cut_back_topics.py",
        "        if not doubtful:\n",
        "        if True:\n",
        "ingest/batches/test_known_cut_backs.py::"
        "test_an_end_before_what_was_read_is_believed_once_it_is_said_again",
    ),
    Mutant(
        "a hole where a topic was cut back closes by itself when the topic has grown",
        "isotherm_ingest/batches/cut_back_topics.py",
        'self._found[position] = self._ids.get(topic, ""), with_cut(self.of(position), cut)',
        "pass",
        OF_CUTS + "test_what_comes_in_the_place_of_lost_messages_is_written_once_somebody_may",
    ),
    Mutant(
        "a driver that begins knows nothing of the cuts that the one before has seen",
        "isotherm_ingest/batches/cut_back_topics.py",
        "self._found[position] = mark.topic_id, mark.cuts",
        "pass",
        OF_CUTS + "test_what_comes_in_the_place_of_lost_messages_is_written_once_somebody_may",
    ),
    Mutant(
        "a table stays halted by messages that can be read again",
        "isotherm_ingest/batches/damage.py",
        "if first <= offset < beyond and self._first_readable(position, first, first + 1) == first:",
        "if False:",
        OF_DAMAGE + "test_what_can_be_read_again_is_not_missed",
    ),
    Mutant(
        "a table whose source has a dot in its name is nobody's after a restart",
        "isotherm_ingest/name_template.py",
        "_VALUES.get(part, _OTHER_VALUE)",
        '_VALUES["topic"]',
        "ingest/batches/test_owners.py::"
        "test_a_source_whose_name_has_dots_gives_a_table_that_is_its_streams_after_a_restart_too",
    ),
    Mutant(
        "a message of another stream's topic chooses the table whose rows it deletes",
        OWNERS,
        "if owner == stream or not (stream.source_parts or stream.fields):",
        "if True:",
        OF_OWNERS + "test_a_message_of_another_streams_topic_neither_writes_a_mirror_nor_stops_it_"
        "whenever_the_driver_begins",
    ),
    Mutant(
        "whose a table is depends on which of its topics comes first",
        OWNERS,
        "if (stream := _first(streams, name, mode)) is not None:",
        "if stream := None:",
        OF_OWNERS + "test_a_table_says_itself_whose_it_is_and_no_order_of_its_topics_does",
    ),
    Mutant(
        "a table that could not be read is written by the stream that asks first",
        OWNERS,
        "if owner is not None and owner != self._owners[name]:",
        "if False:",
        OF_OWNERS
        + "test_a_table_of_which_the_catalog_did_not_say_whose_it_is_waits_instead_of_being_written_as_anothers",
    ),
    Mutant(
        "what is known of many tables of a topic is cut off where plain words find no room",
        "isotherm_ingest/mark_text.py",
        "if len(text.encode()) <= MOST_TEXT:",
        "if True:",
        "ingest/test_mark_text.py::test_of_very_many_tables_as_much_is_known_and_the_beginning_of_each_uuid",
    ),
    Mutant(
        "a table that is made again is the one before, where of its uuid the beginning is known",
        "isotherm_ingest/plan/known.py",
        "uuid.startswith(known[:-1])",
        "True",
        "ingest/batches/test_new_drivers.py::"
        "test_of_a_topic_with_very_many_tables_none_is_halted_for_changes_that_it_never_lacked",
    ),
    Mutant(
        "each schema of a batch that brings a column leaves the table with one schema more",
        "isotherm_ingest/tables/schema_fit.py",
        "if len(bringing) < 2 or not added:",
        "if True:",
        "ingest/tables/test_schema_fit.py::"
        "test_new_columns_of_all_schemas_of_a_batch_leave_the_table_with_one_schema_more",
    ),
    # What is too large
    Mutant(
        "keys of a megabyte each are one condition",
        "isotherm_ingest/sql/key_conditions.py",
        'return (part, False) if len(part.encode()) <= room else ("", False)',
        "return part, False",
        "ingest/sql/test_key_conditions.py::test_a_condition_has_a_length_however_long_the_keys_are",
    ),
    Mutant(
        "what Spark's JVM cannot hold is tried again as it is",
        "isotherm_ingest/failures.py",
        'return "OutOfMemoryError" in text or any(',
        "return any(",
        "ingest/batches/test_driver.py::test_rows_that_are_too_large_together_for_sparks_jvm_pass_in_smaller_pieces",
    ),
    Mutant(
        "old values that are more than Spark brings to its driver are asked for again as they are",
        "isotherm_ingest/failures.py",
        'if "bigger than spark.driver.maxResultSize" in text:',
        "if False:",
        "ingest/batches/test_driver.py::test_rows_that_are_too_large_together_for_sparks_jvm_pass_in_smaller_pieces",
    ),
    Mutant(
        "the cause that an error keeps out of its text is not looked for",
        "isotherm_ingest/failures.py",
        'cause = getattr(cause, "_cause", None) or cause.__cause__',
        "cause = None",
        "ingest/test_failures.py::test_what_an_error_keeps_out_of_its_text_is_looked_for_in_its_causes",
    ),
    Mutant(
        "a table's owner fills the memory in which all tables are read",
        "isotherm_ingest/tables/read_options.py",
        "if value is not None and not least <= value <= most:",
        "if False:",
        "ingest/tables/test_read_options.py::test_what_an_owner_says_is_done_up_to_a_limit",
    ),
    Mutant(
        "a table's owner has Java make an object of any class",
        "isotherm_ingest/tables/refused_properties.py",
        "if CODE in properties:",
        "if False:",
        OF_REFUSALS + "test_a_table_chooses_neither_code_nor_files_that_nobody_writes_here",
    ),
    Mutant(
        "a table's owner has Java connect to any host",
        REFUSALS,
        "if why := _elsewhere(now, place):",
        "if False:",
        OF_REFUSALS + "test_a_table_chooses_no_disk_and_no_host",
    ),
    Mutant(
        "a table's owner has all tables wait for its commit for days",
        "isotherm_ingest/tables/refused_properties.py",
        "if longest_ms > WAIT_MS:",
        "if False:",
        OF_REFUSALS + "test_a_table_has_all_others_wait_no_longer_than_a_minute_between_two_tries",
    ),
    Mutant(
        "a partition's folder is called by a text of any length",
        "isotherm_ingest/workers/partitions.py",
        "if not is_long(path):",
        "if True:",
        "ingest/workers/test_files.py::test_a_text_of_any_length_is_a_partition",
    ),
    Mutant(
        "deletes go into a folder that is called by a text of any length",
        "isotherm_ingest/tables/delete_files.py",
        "partition.size() and not is_long(spec.partitionToPath(partition))",
        "partition.size()",
        "ingest/tables/test_upsert.py::"
        "test_rows_of_a_partition_whose_name_is_longer_than_a_folders_are_changed_like_others",
    ),
    Mutant(
        "a list of small numbers becomes as much text as it says",
        "isotherm_ingest/decode/statement.py",
        'return f"CASE WHEN is_bounded THEN {value} END"',
        "return value",
        "ingest/decode/test_kinds.py::test_a_list_of_numbers_becomes_no_text_that_is_a_thousand_times_as_long",
    ),
    Mutant(
        "what was learned of a topic is kept for ever",
        "isotherm_ingest/batches/routing.py",
        "if count > KEPT}",
        "if count < 0}",
        "ingest/batches/test_routing.py::test_of_a_topic_the_newest_schemas_are_kept_between_batches",
    ),
    Mutant(
        "a schema may have any number of columns",
        "isotherm_ingest/decode/debezium_schema.py",
        "if cost > MAX_COST:",
        "if False:",
        "ingest/decode/test_any_schema.py::"
        "test_a_schema_has_so_many_columns_and_a_list_counts_twice_what_is_in_it",
    ),
    Mutant(
        "statements are kept however wide they are",
        "isotherm_ingest/decode/database.py",
        "self._cost > MAX_KEPT_COST and",
        "False and",
        "ingest/decode/test_database.py::test_wide_statements_are_kept_up_to_what_they_cost_together",
    ),
    Mutant(
        "what a batch meets is counted by schemas, however wide they are",
        "isotherm_ingest/batches/routing.py",
        " or (count > 1 and costs[topic] > NEW_COST_AT_ONCE)",
        "",
        "ingest/batches/test_routing.py::"
        "test_a_batch_that_brings_too_many_columns_in_new_schemas_is_given_up_and_one_schema_never_is",
    ),
    Mutant(
        "a table gets any number of columns",
        "isotherm_ingest/tables/schema_fit.py",
        "if added and len(columns) + len(added) > MAX_COLUMNS:",
        "if False:",
        "ingest/tables/test_schema_fit.py::test_a_table_that_has_very_many_columns_gets_no_more",
    ),
    Mutant(
        "a batch makes as many tables as a topic names",
        "isotherm_ingest/batches/routing.py",
        "if count > NEW_AT_ONCE or ",
        "if ",
        "ingest/batches/test_routing.py::"
        "test_a_batch_that_brings_too_many_schemas_of_a_topic_is_given_up_and_what_was_learned_stays",
    ),
    Mutant(
        "a message of each schema is held by the driver, however many there are",
        "isotherm_ingest/workers/decoding.py",
        "if is_first and sum(topic == group.topic for topic, _ in self._samples) >= SAMPLES:",
        "if False:",
        "ingest/workers/test_decoding.py::test_of_a_topic_with_many_schemas_so_many_are_told_at_once",
    ),
    Mutant(
        "each new name waits for a catalog that answers nobody",
        OWNERS,
        "            if name in self._guessed:\n                self._probe()\n",
        "",
        OF_OWNERS + "test_a_catalog_that_answers_nobody_is_asked_for_one_new_name_and_not_for_each",
    ),
    Mutant(
        "an intent names a partition by a float as it is printed, which no manifest has",
        "isotherm_ingest/tables/java_table.py",
        'return struct.unpack("<f", struct.pack("<f", value))[0]',
        "return value",
        "ingest/tables/test_upsert.py::test_a_partition_may_be_no_number_or_without_end",
    ),
    Mutant(
        "a table that fails when a further topic begins is forgotten with it by the next driver",
        TABLES,
        "            else:\n                state.lacks(portions[name].kafka)\n",
        "",
        OF_LATER_TOPICS + "test_a_table_that_fails_when_another_topic_begins_gets_it_from_the_next_driver",
    ),
    Mutant(
        "a table that is in a pause when a further topic begins is forgotten with it by the next driver",
        TABLES,
        "            else:\n                state.lacks(portion.kafka)\n",
        "            else:\n                pass\n",
        OF_LATER_TOPICS
        + "test_a_table_that_is_in_a_pause_when_another_topic_begins_gets_it_from_the_next_driver",
    ),
    Mutant(
        "where Kafka began is taken for what a table was seen through to",
        "isotherm_ingest/plan/resume_or_halt.py",
        "    if known.is_noted(position):\n        return (through",
        "    if not known.uuid:\n        return (through",
        OF_LATER_TOPICS
        + "test_a_table_that_has_rows_of_a_topic_is_believed_though_the_mark_says_that_it_was_left_out",
    ),
    Mutant(
        "a table whose token has expired says nothing of its other topics in the next one",
        "isotherm_ingest/plan/resume_or_halt.py",
        "    found = recalled(found, known)\n",
        "",
        "ingest/tables/test_expired_tokens.py::test_the_next_token_says_what_the_table_has_of_all_its_topics",
    ),
    Mutant(
        "what Kafka dropped of a new partition before it was read is passed by in silence",
        "isotherm_ingest/plan/topics.py",
        "0 if came_later else kafka.starts.get(position, 0)",
        "kafka.starts.get(position, 0)",
        OF_NEW_PARTITIONS + "test_what_kafka_dropped_of_a_new_partition_before_anybody_read_it_is_told",
    ),
    Mutant(
        "a new partition is read before what its producer has still written to the old ones",
        "isotherm_ingest/plan/topics.py",
        "            if is_known:\n                self.closed[position] = False\n",
        "",
        "ingest/plan/test_topics.py::"
        "test_a_new_partition_waits_for_what_its_producer_has_still_written_to_the_old_ones",
    ),
    Mutant(
        "a new partition waits for where old ones ended before it had messages",
        "isotherm_ingest/plan/topics.py",
        "[number for (_, number), had in self.closed.items() if had]",
        "[one[1] for one in self.closed if kafka.ends.get(one)]",
        "ingest/plan/test_topics.py::test_new_partitions_wait_until_the_old_ones_were_read_to_where_they_ended",
    ),
    Mutant(
        "a new partition does not wait for one that is new too, and came before",
        "isotherm_ingest/plan/topics.py",
        "if not self.gated and (next_ones",
        "if (next_ones",
        "ingest/plan/test_topics.py::test_partitions_that_come_one_after_another_wait_each_for_those_before",
    ),
    Mutant(
        "a new partition does not wait for one that has no leader now",
        "isotherm_ingest/plan/topics.py",
        "if old <= kafka.ends.keys():\n                self.gate, self.gated = {position: kafka.ends[position] for position in old}",
        "if True:\n                self.gate, self.gated = {position: kafka.ends[position] for position in old & kafka.ends.keys()}",
        "ingest/plan/test_topics.py::test_what_has_no_leader_is_waited_for_too",
    ),
    Mutant(
        "nobody asks for a new partition that was empty when it came",
        "isotherm_ingest/plan/topics.py",
        "or (position in self.closed and end > 0)",
        "or False",
        "ingest/plan/test_topics.py::test_what_waits_in_a_closed_partition_is_counted_as_unread",
    ),
    Mutant(
        "what a table was still to be brought of a topic that is made again is told to nobody",
        "isotherm_ingest/plan/known.py",
        "if (one in self.noted or one[0] not in had) and",
        "if one in self.noted and",
        "ingest/batches/test_replaced_topics.py::"
        "test_what_a_table_was_still_to_be_brought_of_a_topic_that_is_made_again_is_told",
    ),
    Mutant(
        "what Kafka had dropped before ingest heard of a topic is told",
        "isotherm_ingest/plan/topics.py",
        "is_known and position not in self.at_first",
        "is_known",
        OF_NEW_PARTITIONS + "test_what_kafka_had_dropped_before_ingest_heard_of_a_topic_is_not_told",
    ),
    Mutant(
        "what a table that never worked lacks of a topic that is made again is passed by in silence",
        TABLES,
        "if lost := state.lost(portion.kafka):",
        "if lost := ():",
        OF_LATER_TOPICS
        + "test_what_a_table_lacks_of_a_topic_that_is_made_again_before_it_had_any_of_it_is_told",
    ),
    # The port, which the daemon has too
    Mutant(
        "a client that asks much and reads nothing takes a thread",
        "runtime/http_server.py",
        'request.headers["CONNECTION"] = "close"',
        "pass",
        "runtime/test_http_server.py::test_a_connection_is_answered_once",
    ),
    Mutant(
        "new partitions between which keys move are read together",
        "isotherm_ingest/plan/topics.py",
        "if number <= 2 * lowest",
        "if True",
        OF_GROWING + "test_partitions_between_which_keys_move_are_not_read_together[one_go]",
    ),
    Mutant(
        "a new partition waits for no lower new one that has no leader",
        "isotherm_ingest/plan/topics.py",
        "if position[1] < lowest and (position not in kafka.ends or self._holds(position, kafka)):",
        "if False:",
        OF_GROWING + "test_a_new_partition_waits_for_a_lower_new_one_that_has_no_leader",
    ),
    Mutant(
        "a table that is behind begins no partition while the front of a lower one goes on",
        "isotherm_ingest/plan/catching_up.py",
        "first < front.get((other, lower), first)",
        "True",
        OF_GROWING + "test_a_new_table_of_a_topic_gets_all_partitions_though_the_lowest_goes_on_for_ever[61]",
    ),
    Mutant(
        "what goes by a table that is behind counts as begun",
        STATE,
        "if is_next and not self.is_behind(front.get(position[0], {})):",
        "if is_next:",
        OF_GROWING
        + "test_a_table_that_is_behind_in_an_old_partition_gets_no_new_one_before_whatever_others_get[True-it begins again]",
    ),
    Mutant(
        "a new partition that lost its beginning counts as open",
        "isotherm_ingest/plan/topics.py",
        "if position in self.closed:\n                    self.told",
        "if False:\n                    self.told",
        OF_GROWING + "test_a_new_partition_that_lost_its_beginning_to_retention_waits_all_the_same[True]",
    ),
    Mutant(
        "a table that was rolled back has all once anybody has committed to it",
        LAKE,
        "if place in {main[-1].parent_snapshot_id, *(one.snapshot_id for one in main)}:",
        "if number <= (main[0].sequence_number or 0):",
        "ingest/tables/test_expired_tokens.py::"
        "test_a_table_that_was_rolled_back_says_so_whoever_commits_to_it_then[True-halt]",
    ),
    Mutant(
        "what a table has of which nobody knows counts as nothing",
        "isotherm_ingest/plan/resume_or_halt.py",
        "is_untold = found.is_unknown or (",
        "is_untold = (",
        "ingest/tables/test_expired_tokens.py::"
        "test_a_table_that_was_rolled_back_says_so_whoever_commits_to_it_then[False-backfill]",
    ),
    Mutant(
        "a topic is marked only once its first batch is committed",
        "isotherm_ingest/batches/driver.py",
        "{one[0] for one in ranges if not self._marking.is_of(one, self._topics[one[0]].topic_id)}",
        "set()",
        "ingest/batches/test_shared_topics.py::"
        "test_a_driver_that_dies_between_two_commits_of_a_first_batch_leaves_nothing_out",
    ),
    Mutant(
        "what a rollback took from another topic is claimed once more after a lost race",
        "isotherm_ingest/tables/portion.py",
        "and self.read == read",
        "and True",
        "ingest/tables/test_writer.py::"
        "test_a_rollback_that_wins_the_race_is_not_hidden_by_what_is_said_of_another_topic",
    ),
    Mutant(
        "what Kafka dropped of a partition that waits is told of no table where one is noted",
        "isotherm_ingest/batches/driver.py",
        "if noted and not self._tables.of_topic(name) - noted:",
        "if noted:",
        "ingest/batches/test_new_partitions.py::"
        "test_what_kafka_dropped_of_a_partition_that_waits_is_told_of_each_table_that_says_nothing_of_it",
    ),
    Mutant(
        "a hole is told once the table has gone on behind it",
        "isotherm_ingest/batches/tables.py",
        "            self._tell(name, one.look.place.told)\n",
        "            pass\n",
        "ingest/batches/test_rollbacks.py::test_a_hole_that_is_accepted_is_told_before_the_table_goes_on_behind_it",
    ),
    Mutant(
        "a property counts though tokens that came after it may have expired",
        "isotherm_ingest/tables/lake.py",
        "return False if is_left else None",
        "return not is_left",
        "ingest/tables/test_kept_tokens.py::test_what_a_table_is_known_to_have_it_has",
    ),
    Mutant(
        "an expiry leaves it at the old snapshot up to which a kept token is the newest",
        "iceberg/kept_tokens.py",
        "tokens[name] = kept_as_of(kept, next(iter(main), place))",
        "pass",
        "ingest/tables/test_kept_tokens.py::"
        "test_where_the_daemon_alone_expires_and_nobody_rolls_back_it_is_always_known",
    ),
    Mutant(
        "an expiry forgets what shows that a kept token was left by a rollback",
        "iceberg/kept_tokens.py",
        "tokens[name] = kept_as_of(kept, NOWHERE)",
        "pass",
        "ingest/tables/test_kept_tokens.py::test_where_the_daemon_alone_expires_a_rollback_is_not_forgotten",
    ),
    Mutant(
        "where a rollback is filled, what came later comes before it",
        "isotherm_ingest/plan/resume_or_halt.py",
        "if position[0] in filled and position not in (found.vector or {}):",
        "if False:",
        "ingest/batches/test_rollbacks.py::test_where_a_rollback_is_filled_a_partition_that_came_later_waits_once_more",
    ),
    Mutant(
        "a rollback behind the last token is none where no token is left",
        "isotherm_ingest/tables/lake.py",
        "if token is None and self._is_left(pipeline) else token",
        "if False else token",
        "ingest/tables/test_expired_tokens.py::"
        "test_a_rollback_to_where_no_token_is_left_is_told_while_what_was_left_is_there",
    ),
    Mutant(
        "a new table is halted by what retention takes while it is brought up",
        "isotherm_ingest/plan/resume_or_halt.py",
        "if hole.why in {Lost.RETENTION, Lost.DAMAGED} and hole.resumes <= passed.get(hole.position, 0):",
        "if False:",
        "ingest/batches/test_shared_topics.py::"
        "test_a_new_table_is_brought_up_while_retention_goes_on_and_halts_where_that_takes_its_own",
    ),
    Mutant(
        "what comes for a new table once it was met counts as passed",
        "isotherm_ingest/batches/table_state.py",
        "self.new_topics.discard(topic)",
        "pass",
        "ingest/batches/test_shared_topics.py::"
        "test_a_new_table_is_brought_up_while_retention_goes_on_and_halts_where_that_takes_its_own",
    ),
    Mutant(
        "partitions that are gone have new ones wait for them",
        "isotherm_ingest/batches/driver.py",
        "front = {one: least[one] for one in there if one in least}",
        "front = dict(least)",
        "ingest/batches/test_shared_topics.py::"
        "test_a_topic_that_is_made_again_smaller_on_a_broker_without_ids_is_read_whole",
    ),
    Mutant(
        "a table that was made again and has as much goes back behind its own vector",
        "isotherm_ingest/plan/resume_or_halt.py",
        "if not is_table(known.uuid, found.uuid) and (has is None or has < through):",
        "if not is_table(known.uuid, found.uuid):",
        "ingest/plan/test_resume_or_halt.py::test_what_was_made_again_and_has_as_much_lacks_nothing",
    ),
    Mutant(
        "what the marks say of a topic that is listed later is not taken up",
        "isotherm_ingest/batches/driver.py",
        "            self._recall(self._topics.keys() - before)\n",
        "",
        OF_UNLISTED + "test_a_topic_that_is_listed_later_goes_on_where_its_marks_say[backfill-True]",
    ),
    Mutant(
        "what the front has passed had nothing for a table whose own token says otherwise",
        "isotherm_ingest/plan/resume_or_halt.py",
        "if not _is_stale(one, known, kafka) and not _is_its_own_word(one, found, known)",
        "if not _is_stale(one, known, kafka)",
        OF_UNLISTED
        + "test_what_retention_takes_of_a_table_that_is_behind_halts_it_whatever_was_hidden_at_first[the table-True]",
    ),
    Mutant(
        "a mark of a topic that is gone counts beside those of the one that has its name",
        "isotherm_ingest/batches/marking.py",
        "of_topics(marks, ids)",
        "marks",
        OF_REPLACED
        + "test_marks_of_a_topic_that_is_gone_say_nothing_beside_those_of_the_one_that_has_its_name[accept-b-True]",
    ),
    Mutant(
        "a hole in a partition without a message is told in each turn",
        STATE,
        " | {hole.position for hole in place.told}",
        "",
        OF_REPLACED + "test_a_hole_in_a_partition_without_a_message_is_told_once[accept]",
    ),
    Mutant(
        "what a halted table says that it has is forgotten",
        STATE,
        "self.known.raised(place.vector, kafka) if is_same else self.known",
        "self.known",
        OF_HALTED + "test_what_a_halted_table_says_that_it_has_counts_once_its_token_is_gone",
    ),
    Mutant(
        "where Kafka began counts for a table that has said that it has less",
        "isotherm_ingest/plan/known.py",
        "seen = {one: through for one, through in self.through.items() if not self.is_noted(one)}",
        "seen = self.through",
        OF_LATER_TOPICS
        + "test_a_table_that_has_rows_of_a_topic_is_believed_though_the_mark_says_that_it_was_left_out",
    ),
    Mutant(
        "what a halted table says of a topic that is not there counts for another of its name",
        "isotherm_ingest/plan/known.py",
        "            and one in kafka.ends\n",
        "",
        OF_HALTED
        + "test_what_a_table_was_seen_through_to_counts_though_it_was_halted_while_its_topic_was_not_listed",
    ),
    Mutant(
        "a table that was made again while a topic was not listed has all of that, by the marks of the one before",
        STATE,
        "known.recalling(said, topics) if is_same else known.made_anew(said, topics)",
        "known.recalling(said, topics) if is_same else known",
        OF_MADE_AGAIN
        + "test_what_a_table_that_was_made_again_lacks_of_a_topic_that_nobody_sees_is_brought_once_it_is_there[at first-shop.public.s1-True]",
    ),
    Mutant(
        "what is filled of a partition without a leader is not brought before a message comes",
        STATE,
        "later = {hole.position: hole for hole in place.told if hole.position not in place.next}",
        "later: dict[Position, Hole] = {}",
        OF_MADE_AGAIN
        + "test_what_a_table_that_was_made_again_lacks_of_a_topic_that_nobody_sees_is_brought_once_it_is_there[no leader-shop.public.s1-False]",
    ),
    Mutant(
        "a uuid alone says what a table has",
        "isotherm_ingest/plan/known.py",
        "return bool(self.uuid) and not self.unsaid and bool(self.through.keys() - self.noted)",
        "return bool(self.uuid) and not self.unsaid",
        "ingest/tables/test_expired_tokens.py::"
        "test_where_only_the_table_is_known_and_not_its_place_nothing_is_written[a uuid alone-halt]",
    ),
    Mutant(
        "what a table is just found to lack of another partition is written after what the batch has",
        "isotherm_ingest/tables/portion.py",
        "if hole.position not in portion.ranges and place.next.get(hole.position, hole.resumes) < hole.resumes:",
        "if False:",
        OF_GROWING
        + "test_a_new_partition_is_written_after_what_a_table_is_found_to_lack_of_an_old_one[dropped-False]",
    ),
    Mutant(
        "nobody is told that tables of new names are not built at once",
        "isotherm_ingest/batches/old_names.py",
        'if old and any(mark.names not in {"", names_of(template)} for mark in marks.values()):',
        "if False:",
        "ingest/batches/test_renamed_streams.py::test_names_that_match_the_old_ones_too_are_told",
    ),
    Mutant(
        "marks that name the table before count for nothing",
        "isotherm_ingest/known_in_marks.py",
        "        replaced={position: said[position][2] for position in others},\n",
        "",
        OF_MADE_AGAIN
        + "test_a_table_that_was_made_again_while_a_topic_was_not_listed_is_told_by_a_driver_that_begins[accept-shop.public.s1-False]",
    ),
    Mutant(
        "which topic sorts first says which of two tables of a name is the newer one",
        "isotherm_ingest/plan/resume_or_halt.py",
        "    known = None if known is None else known.as_found(found.uuid)\n",
        "",
        OF_MADE_AGAIN
        + "test_what_a_table_was_seen_through_to_in_the_listed_topic_counts_whichever_topic_sorts_first[shop.public.s2-accept]",
    ),
    Mutant(
        "a large value that is left out of a key is a key",
        "isotherm_ingest/decode/statement.py",
        "if wanted.keeps and wanted.is_key(one.name) and one.column.kind.placeholders",
        "if False",
        "ingest/decode/test_changed_keys.py::test_a_large_value_that_is_left_out_of_the_key_is_no_key",
    ),
    Mutant(
        "a value that is left out of the new row is another key",
        "isotherm_ingest/decode/statement.py",
        " AND NOT {_is_left_out(one, 'p.after')})",
        ")",
        "ingest/decode/test_changed_keys.py::test_a_large_value_that_is_left_out_of_the_key_is_no_key",
    ),
    Mutant(
        "the least of all numbers is told as a lower end",
        "isotherm_ingest/sql/key_conditions.py",
        "kind not in _NEAR_THE_LEAST or",
        "kind or",
        "ingest/sql/test_key_conditions.py::test_no_lower_end_is_told_that_iceberg_would_truncate_to_a_large_number[BIGINT--9223372036854775808]",
    ),
    Mutant(
        "a value that no partition can hold is written",
        "isotherm_ingest/workers/partitions.py",
        "if steps - steps % width < lowest:",
        "if False:",
        "ingest/workers/test_decoding.py::test_a_value_that_no_partition_can_hold_is_a_letter_alone[bigint]",
    ),
    Mutant(
        "a halt is kept with the table before the one that is there",
        "isotherm_ingest/batches/table_state.py",
        "        self.known = self._as_found(place)\n",
        "",
        "ingest/batches/test_halted_tables.py::"
        "test_that_a_table_was_halted_is_kept_with_the_table_that_is_there[shop.public.s1-shop.public.s2]",
    ),
    Mutant(
        "a rollback is not looked for in what is behind",
        "isotherm_ingest/batches/driver.py",
        "if name not in behind or self._tables.must_look(name)",
        "if name not in behind",
        "ingest/batches/test_rollbacks.py::"
        "test_a_rollback_is_told_though_the_table_lacks_something_that_nobody_can_bring_it",
    ),
    Mutant(
        "snapshots without numbers, whose oldest has no parent any more, are told as a rollback",
        "isotherm_ingest/announce/pending.py",
        "if last.sequence_number == 0:",
        "if last.sequence_number == 0 and path[-1].parent_id is not None:",
        "ingest/announce/test_pending.py::"
        "test_where_snapshots_have_no_numbers_a_gap_is_no_rollback_and_all_of_them_are_announced",
    ),
    Mutant(
        "ints are looked for in the partitions that Java makes of them",
        "isotherm_ingest/tables/lake.py",
        "one.width > 2**30",
        "one.width > 2**31",
        "ingest/tables/test_upsert.py::"
        "test_rows_by_ints_that_are_truncated_to_more_than_a_quarter_of_all_are_found",
    ),
    Mutant(
        "what could not be judged of a halted table is believed",
        "isotherm_ingest/plan/resume_or_halt.py",
        "known.is_halted or known.doubted or known.unsaid",
        "known.is_halted or known.unsaid",
        "ingest/batches/test_unlisted_topics.py::"
        "test_a_look_that_cannot_judge_a_hole_ends_no_halt_and_hides_no_rollback[rollback, then leader away-halt-True-False]",
    ),
    Mutant(
        "less of what cannot be judged is no doubt",
        "isotherm_ingest/batches/table_state.py",
        "(old.through.keys() if old.is_halted else frozenset()) | less",
        "(old.through.keys() if old.is_halted else frozenset())",
        "ingest/batches/test_unlisted_topics.py::"
        "test_a_look_that_cannot_judge_a_hole_ends_no_halt_and_hides_no_rollback[leader away, then rollback-backfill-True-False]",
    ),
    Mutant(
        "what was in doubt is not looked at once it can be judged",
        "isotherm_ingest/batches/driver.py",
        "{*self._outbox.changed(), *self._tables.doubted(ends, now_s)}",
        "self._outbox.changed()",
        "ingest/batches/test_unlisted_topics.py::"
        "test_a_look_that_cannot_judge_a_hole_ends_no_halt_and_hides_no_rollback[leader away, then rollback-halt-False-False]",
    ),
    Mutant(
        "doubts are not kept over a restart",
        "isotherm_ingest/known_in_marks.py",
        "said.is_halted or position in said.doubted",
        "said.is_halted",
        "ingest/batches/test_unlisted_topics.py::"
        "test_a_look_that_cannot_judge_a_hole_ends_no_halt_and_hides_no_rollback[leader away, then rollback-halt-True-True]",
    ),
    Mutant(
        "a table that was made again has the topics alone of which it has something",
        "isotherm_ingest/batches/tables.py",
        "had = set() if known is None else {topic for topic, _ in (*known.through, *known.by_others)}",
        "had = set() if known is None else {topic for topic, _ in known.through}",
        "ingest/batches/test_tables_made_again.py::"
        "test_a_table_that_was_made_again_is_brought_all_topics_though_its_first_slice_held_nothing"
        "[shop.public.s1-shop.public.s2]",
    ),
    Mutant(
        "a doubt of a topic that is no longer the table's lasts for ever",
        "isotherm_ingest/batches/table_state.py",
        "one[0] in same and one[0] in self.topics and one not in place.next",
        "one[0] in same and one not in place.next",
        "ingest/batches/test_halted_tables.py::"
        "test_what_was_in_doubt_of_a_topic_that_another_table_has_by_now_is_nobody_s_doubt",
    ),
    Mutant(
        "a topic that has another table by now is the old one's once it is listed",
        "isotherm_ingest/batches/tables.py",
        "for topic in self.owners.giving(name, topics):",
        "for topic in topics:",
        "ingest/batches/test_renamed_streams.py::"
        "test_a_table_of_a_new_name_is_built_from_all_partitions_whenever_they_are_there_again[not listed]",
    ),
    Mutant(
        "the mark of a partition without a leader counts for a table of another name",
        "isotherm_ingest/batches/driver.py",
        'if mark.topic_id in {"", topic_id} and position not in others:',
        'if mark.topic_id in {"", topic_id}:',
        "ingest/batches/test_renamed_streams.py::"
        "test_a_table_of_a_new_name_is_built_from_all_partitions_whenever_they_are_there_again[no leader]",
    ),
    Mutant(
        "of a field that stands twice the first value is written, whichever was meant",
        "isotherm_ingest/decode/bare_json.py",
        '("doubled IS NOT NULL"',
        '("false"',
        OF_DECLARED + "test_poison_between_good_events_is_told_one_by_one",
    ),
    Mutant(
        "of a row or an operation that stands twice in a change the first is written",
        "isotherm_ingest/decode/bare_json.py",
        "CASE WHEN e IS NOT NULL THEN json_keys(written) END",
        "NULL",
        OF_DECLARED + "test_what_stands_twice_in_a_change_or_its_key_is_a_dead_letter",
    ),
    Mutant(
        "a delete by a key whose field stands twice takes a row all the same",
        "isotherm_ingest/decode/bare_json.py",
        'f"CASE WHEN {is_by_key} THEN TRY(json_keys({key})) END"',
        '"NULL"',
        OF_DECLARED + "test_what_stands_twice_in_a_change_or_its_key_is_a_dead_letter",
    ),
    Mutant(
        "a partition spec that no declared column fits is found out by the first message",
        "isotherm_ingest/stream_formats.py",
        "if taken and found and found not in taken:",
        "if False:",
        "ingest/test_stream_formats.py::test_a_date_has_days_but_no_hours",
    ),
    Mutant(
        "what stands in the place of a row, and is none, is a row of nulls",
        "isotherm_ingest/decode/bare_json.py",
        'f"CASE WHEN {_IS_OBJECT.format(text)} "',
        'f"CASE WHEN true "',
        OF_DECLARED + "test_poison_between_good_changes_is_told_one_by_one",
    ),
    Mutant(
        "a decimal of a bare message is a double that is near it",
        "isotherm_ingest/decode/bare_json.py",
        'row = f"CASE WHEN x_{name} IS NULL THEN {row} ELSE struct_update({row}, {updates}) END"',
        "pass",
        OF_DECLARED + "test_numbers_are_exact_in_either_image",
    ),
    Mutant(
        "an unchanged array in a column that is declared a text is overwritten with its placeholder",
        "isotherm_ingest/decode/declared_types.py",
        "return _WORDS.get(name)",
        'return kind_of({"type": "map"}) if name == "STRING" else _WORDS.get(name)',
        OF_DECLARED + "test_whatever_debezium_sends_for_an_unchanged_large_value_is_kept",
    ),
    Mutant(
        "a delete by a decimal key takes the row of the double that is near it",
        "isotherm_ingest/decode/statement.py",
        'return f"coalesce(z.x.{name_in_sql(field)}, {told})" if column.kind.is_exact else told',
        "return told",
        OF_DECLARED + "test_numbers_of_a_key_delete_the_row_that_they_inserted",
    ),
    Mutant(
        "a decimal is rounded to what its column holds",
        "isotherm_ingest/decode/declared_types.py",
        "with_decimals(spelled({}), {most})",
        "spelled({})",
        "ingest/decode/test_declared_types.py::test_a_decimal_is_the_number_that_is_written_or_a_dead_letter",
    ),
    Mutant(
        "a number too large for its column becomes infinity",
        "isotherm_ingest/decode/database.py",
        MACRO,
        "\"CREATE MACRO \" + macro.replace(' THEN CASE WHEN isfinite(value) THEN value END', ' THEN value')",
        "ingest/decode/test_declared_types.py::test_what_it_does_not_take_names_the_column",
    ),
    Mutant(
        "a decimal that is too small for a double becomes 0",
        "isotherm_ingest/decode/database.py",
        MACRO,
        """"CREATE MACRO " + macro.replace("{3}')", "{9}')")""",
        "ingest/decode/test_declared_types.py::test_what_it_does_not_take_names_the_column",
    ),
    Mutant(
        "a time that is finer than a microsecond may become a later one",
        "isotherm_ingest/decode/database.py",
        MACRO,
        "\"CREATE MACRO \" + macro.replace(\"regexp_extract(x, '^-?[0-9]+([.][0-9]{1,9})?')\", 'x')",
        "ingest/decode/test_declared_types.py::test_what_is_finer_than_a_microsecond_is_cut_off_towards_the_past",
    ),
    Mutant(
        "a time far beyond all readers is a dead letter, whatever the stream says",
        "isotherm_ingest/decode/database.py",
        MACRO,
        "\"CREATE MACRO \" + macro.replace('* factor)::BIGINT), endless(x))', '* factor)::BIGINT), NULL)')",
        "ingest/decode/test_declared_types.py::test_a_time_far_beyond_them_too",
    ),
    Mutant(
        "no time at all is clamped to the last moment",
        "isotherm_ingest/decode/database.py",
        MACRO,
        "\"CREATE MACRO \" + macro.replace('WHEN x IS NOT NULL THEN 9223372036854775807', 'ELSE 9223372036854775807')",
        "ingest/decode/test_declared_types.py::test_what_is_no_time_is_none_whatever_the_stream_says_of_times",
    ),
    Mutant(
        "a field that a stream requires may be missing",
        "isotherm_ingest/decode/statement.py",
        'or (schema.shape != "with schema" and not one.column.is_optional)',
        "",
        OF_DECLARED + "test_poison_between_good_events_is_told_one_by_one",
    ),
    Mutant(
        "a delete of a bare change takes a row whose key Debezium made up",
        "isotherm_ingest/decode/statement.py",
        "    if not is_told:\n",
        "    if False:\n",
        OF_DECLARED + "test_an_old_row_that_tells_no_more_than_the_key_deletes_no_other_row",
    ),
    Mutant(
        "a primary key that gains a column lets rows of bare changes overwrite each other",
        "isotherm_ingest/decode/declared_json.py",
        '(b"envelope", _named(key))',
        '(b"envelope", None)',
        OF_DECLARED + "test_changes_with_keys_of_other_columns_are_of_another_kind",
    ),
    Mutant(
        "workers read every topic as Debezium's JSON, whatever its stream says",
        "isotherm_ingest/batches/batches.py",
        "self._routing.formats(topics)",
        "{}",
        "ingest/batches/test_declared_streams.py::"
        "test_the_workers_of_a_batch_are_told_the_formats_of_its_topics",
    ),
    Mutant(
        "an Avro message that is cut off reads on in the next one",
        "isotherm_ingest/decode/avro_columns.py",
        "return len(matched) if place < 0 else place",
        "return len(matched)",
        OF_AVRO + "test_bytes_that_are_given_from_one_message_to_the_next_are_noticed",
    ),
    Mutant(
        "what stands behind the value of an Avro message is passed over",
        "isotherm_ingest/decode/avro_values.py",
        "if given.at != len(data):",
        "if False:",
        "ingest/decode/test_avro.py::test_poison_between_good_changes_is_told_one_by_one",
    ),
    Mutant(
        "a record within itself is read as deep as a message likes",
        "isotherm_ingest/decode/avro_schema.py",
        "if name in within:",
        "if False:",
        "ingest/decode/test_avro_schema.py::test_what_nobody_should_decode_is_refused",
    ),
    Mutant(
        "a list of nothing has as many items as a message says",
        "isotherm_ingest/decode/avro_schema.py",
        "if not items.takes_bytes:",
        "if False:",
        "ingest/decode/test_avro_schema.py::test_what_nobody_should_decode_is_refused",
    ),
    Mutant(
        "what a registry does not know yet is a dead letter at once",
        "isotherm_ingest/registry.py",
        "if for_s < UNKNOWN_FOR_S:",
        "if False:",
        "ingest/test_registry.py::test_an_id_that_is_unknown_is_waited_for_a_while",
    ),
    Mutant(
        "behind a wrong address all messages are dead letters",
        "isotherm_ingest/registry.py",
        "(_is_of_registry(told) or abs(number) > MAX_ID)",
        "True",
        "ingest/test_registry.py::test_who_does_not_answer_as_a_registry_is_away_and_asked_again",
    ),
    Mutant(
        "a garbage id that Confluent's registry cannot even read keeps its topic for ever",
        "isotherm_ingest/registry.py",
        'if number > MAX_ID and self._config is not None and self._config.framing == "confluent":',
        "if False:",
        "ingest/test_registry.py::test_an_id_beyond_those_that_a_registry_gives_is_unknown_without_asking",
    ),
    Mutant(
        "a garbage id of eight bytes keeps its topic for ever",
        "isotherm_ingest/registry.py",
        "(_is_of_registry(told) or abs(number) > MAX_ID)",
        "_is_of_registry(told)",
        "ingest/test_registry.py::test_elsewhere_a_large_id_waits_as_any_that_is_unknown",
    ),
    Mutant(
        "each topic waits for a silent registry by itself, one after the other",
        "isotherm_ingest/registry.py",
        "            self._silent_until_s = self._monotonic_s() + SILENT_FOR_S\n",
        "",
        "ingest/test_registry.py::test_a_registry_that_is_silent_takes_the_time_of_one_request_for_all_that_ask",
    ),
    Mutant(
        "a registry that trickles keeps ingest for as long as it likes",
        "isotherm_ingest/registry.py",
        "self._patience.within(lambda: _got(config, url))",
        "_got(config, url)",
        "ingest/test_registry.py::test_an_answer_that_trickles_in_is_given_up",
    ),
    Mutant(
        "an enum that a schema names often fills the memory with its symbols",
        "isotherm_ingest/decode/avro_schema.py",
        "if self._names > MAX_NAMES:",
        "if False:",
        "ingest/decode/test_avro_schema.py::test_an_enum_that_is_named_many_times_does_not_multiply",
    ),
    Mutant(
        "a message of few bytes fills the memory with names of fields",
        "isotherm_ingest/decode/avro_values.py",
        "if self.room < 0:",
        "if False:",
        OF_AVRO + "test_a_message_whose_text_is_very_much_longer_is_none_and_those_beside_it_are_some",
    ),
    Mutant(
        "beside others a message fills the memory with names of fields",
        "isotherm_ingest/decode/avro_columns.py",
        "and longest_names(item) <= NAMES_GROWTH * shortest",
        "",
        OF_AVRO + "test_a_message_whose_text_is_very_much_longer_is_none_and_those_beside_it_are_some",
    ),
    Mutant(
        "a registry without a login is told that of the user's ~/.netrc",
        "isotherm_ingest/registry.py",
        "auth=config.login or _no_login",
        "auth=config.login",
        "ingest/test_registry.py::test_without_a_login_none_is_sent",
    ),
    Mutant(
        "a schema that came late is unknown until ingest starts again",
        "isotherm_ingest/batches/routing.py",
        'problem_of("no_schema", err), passes=True)\n        try:',
        'problem_of("no_schema", err))\n        try:',
        "ingest/batches/test_avro_streams.py::"
        "test_a_schema_that_there_is_not_refuses_messages_until_the_next_batch",
    ),
    Mutant(
        "good changes are dead letters where another serializer wrote their keys",
        "isotherm_ingest/batches/schemas.py",
        "                if not place:\n",
        "                if True:\n",
        OF_AVRO_STREAMS + "test_a_key_that_is_none_of_avro_counts_as_no_key_at_once",
    ),
    Mutant(
        "good changes wait five minutes for keys that another serializer wrote",
        "isotherm_ingest/batches/schemas.py",
        "if not place or needs_key or deletes:",
        "if True:",
        OF_AVRO_STREAMS + "test_a_key_that_is_none_of_avro_counts_as_no_key_at_once",
    ),
    Mutant(
        "a mirror has no key where the schema of its keys comes a moment late",
        "isotherm_ingest/batches/schemas.py",
        "if not place or needs_key or deletes:",
        "if not place or deletes:",
        OF_AVRO_STREAMS
        + "test_a_mirror_that_has_its_key_from_the_messages_waits_for_the_schema_of_their_keys",
    ),
    Mutant(
        "a key whose schema comes late is none until ingest starts again",
        "isotherm_ingest/batches/routing.py",
        "        self._schemas.forget_for_now(topics)\n",
        "",
        OF_AVRO_STREAMS + "test_a_key_that_is_known_a_batch_later_is_one_from_then_on",
    ),
    Mutant(
        "heartbeats of Debezium in Avro are dead letters",
        "isotherm_ingest/workers/decoding.py",
        "if group.is_bookkeeping():",
        "if False:",
        OF_AVRO_STREAMS + "test_what_debezium_says_of_itself_is_no_dead_letter",
    ),
    Mutant(
        "each unknown schema has the topic wait for itself",
        "isotherm_ingest/batches/routing.py",
        "                waits = err\n",
        "                raise\n",
        "ingest/batches/test_avro_streams.py::"
        "test_ids_that_nobody_knows_wait_together_and_what_is_known_is_learned_meanwhile",
    ),
)
