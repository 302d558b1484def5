"""Mistakes at the edges: keys that a catalog lends, what an audit finds, and what people are told."""

from mutants.mutant import Mutant

CLIENT = "clients/catalog.py"
GLUE = "clients/glue.py"
HEALTH = "service/health.py"
HIVE = "clients/hive.py"
ROUNDS = "telemetry/round_metrics.py"
TABLES = "telemetry/table_metrics.py"
OF_GLUE = "clients/test_glue.py::"
OF_HIVE = "clients/test_hive.py::"
OF_THE_CLIENT = "clients/test_catalog.py::"
HTTP = "telemetry/test_http.py::"
ALERTS = "telemetry/test_metrics.py::test_what_an_alert_asks_for_is_what_was_seen"

MUTANTS = (
    # What the demo's witness has not seen
    Mutant(
        "of a table that nobody can commit to files are rewritten",
        "iceberg/unsupported.py",
        "    if why := _garbage(metadata):\n",
        '    if why := "":\n',
        "iceberg/test_unsupported.py::test_a_table_that_nobody_can_commit_to_is_bound_to_no_job_and_says_why",
    ),
    Mutant(
        "a partition's value writes a line of its own",
        "core/partitions.py",
        '"/".join(parts).translate(BREAKS)',
        '"/".join(parts)',
        "core/test_partitions.py::test_a_value_writes_no_line_of_its_own",
    ),
    Mutant(
        "the demo's witness takes what came after a gap for all that came",
        "demo/witness.py",
        "return snapshot.sequence_number != newest + 1",
        "return False",
        "demo/test_witness.py::test_what_expired_unseen_is_told_and_the_table_is_followed_from_its_head",
    ),
    # Where an audit cannot know whether a snapshot was announced
    Mutant(
        "without a ledger each snapshot counts as one that a daemon had to announce",
        "audit/announcements.py",
        "if history.accounted is None:",
        "if False:",
        "audit/test_promises.py::test_without_a_ledger_nobody_knows_who_should_have_announced_a_snapshot",
    ),
    Mutant(
        "what a topic that was made again does not have was never announced",
        "audit/announcements.py",
        "return LOST if snapshot_id in history.heard else None",
        "return None",
        "audit/test_promises.py::test_a_topic_that_was_made_again_has_lost_announcements_that_the_ledger_has",
    ),
    # What a person is told who names a table that there is not
    Mutant(
        "a table that the catalog does not have is no mistake of who names it",
        "commands/unknown_table.py",
        'raise UnknownTable(f"{err}{hint}") from err',
        "raise",
        "commands/test_commands.py::test_a_table_that_is_not_there_is_a_mistake_of_who_names_it",
    ),
    # What the demo compares once its tables were altered
    Mutant(
        "the demo reads a column that was renamed by its new name alone",
        "demo/lake.py",
        "schema = {_by_id(schema)})",
        "union_by_name = true)",
        "demo/test_alterations.py::test_rewritten_by_a_newer_schema_rows_have_the_sum_that_they_had",
    ),
    Mutant(
        "the demo compares the columns with which a table was made",
        "demo/referee.py",
        "table.lake_column(name)) for name, kind in cursor]",
        "table.lake_column(name)) for name, kind in cursor if name in dict(table.columns)]",
        "demo/test_alterations.py::test_a_value_or_a_column_that_the_lake_does_not_have_is_missed",
    ),
    Mutant(
        "the demo makes no table in mid-run",
        "demo/alterations.py",
        "zip(numbers, Alteration, strict=True)",
        "zip(numbers, list(Alteration)[:4])",
        "demo/test_alterations.py::"
        "test_every_alteration_has_its_moment_early_in_the_trade_and_a_seed_gives_the_same_ones",
    ),
    # What the demo says while it runs
    Mutant(
        "the demo's live line blames us for what the writer's log has not said yet",
        "demo/referee.py",
        "        logbook.read()\n        return judge(",
        "        return judge(",
        "demo/test_referee.py::test_the_live_line_blames_us_only_for_what_the_writers_log_names",
    ),
    Mutant(
        "a table in another account of Azure is read from ours",
        "clients/azure.py",
        "if not account or host.lower() not in {one.lower() for one in hosts}:",
        "if not account:",
        "clients/test_azure.py::test_an_account_that_the_operator_did_not_name_is_not_asked",
    ),
    Mutant(
        "a remote file is written over another",
        "clients/remote_file.py",
        "if self._store.ask(self._is_there):",
        "if False:",
        "clients/test_remote_file.py::test_a_file_is_not_written_over_another",
    ),
    Mutant(
        "what was opened once is read on where it failed",
        "clients/remote_file.py",
        "streams.pop() if streams else self._file.open()",
        "streams[0]",
        "clients/test_remote_file.py::test_what_was_opened_is_opened_again_where_reading_fails",
    ),
    Mutant(
        "an upload has no limit as a whole",
        "clients/remote_file.py",
        "self._store.sent(self._send, self._spool.tell())",
        "self._send()",
        "clients/test_timeouts.py::"
        "test_an_upload_that_trickles_is_given_up_as_a_whole_and_has_time_for_its_size",
    ),
    Mutant(
        "a list that does not come whole is the end of what a folder has",
        "clients/listing.py",
        "                if all_of_it is None:\n",
        "                if all_of_it is one:\n",
        "clients/test_listing.py::"
        "test_a_folder_that_does_not_come_whole_in_time_is_listed_folder_by_folder_and_the_store_is_not_left_alone",
    ),
    Mutant(
        "a store that once had sixteen requests hang is shut until a restart",
        "runtime/hanging.py",
        "if (left_s := self._trials.left_s) > 0:",
        "if (left_s := self._trials.left_s) > -1e9:",
        "clients/test_timeouts.py::test_a_store_whose_requests_hang_for_ever_is_asked_again_when_it_is_back",
    ),
    Mutant(
        "a trial that hangs too has all others begin",
        "runtime/hanging.py",
        "if end in self._counted or ",
        "if ",
        "runtime/test_hanging.py::test_a_trial_that_was_given_up_or_got_no_thread_proves_nothing",
    ),
    Mutant(
        "threads that hang have no bound",
        "runtime/hanging.py",
        ">= MOST_EVER:",
        ">= 1000 * MOST_EVER:",
        "runtime/test_hanging.py::"
        "test_however_often_and_for_how_long_calls_hang_their_threads_are_so_many_at_most",
    ),
    Mutant(
        "a rewrite opens whatever has the name of a local file",
        "iceberg/compaction/local_copy.py",
        "with opened(normalised(location)) as file:",
        'with open(normalised(location), "rb") as file:',
        "iceberg/compaction/test_failures.py::test_a_bad_input_file_is_named[a pipe]",
    ),
    Mutant(
        "time that a damaged record covers counts as watched",
        "service/tables/rewriters.py",
        " if is_whole else None",
        "",
        "service/tables/test_rewriters.py::"
        "test_a_damaged_record_of_an_older_version_tells_nothing_and_hides_no_other",
    ),
    Mutant(
        "a GCS that answers 503 is asked for a quarter of an hour",
        "clients/one_attempt.py",
        "GcsFileSystem(retry_time_limit=GCS_TRIES_FOR, **options)",
        "GcsFileSystem(**options)",
        "clients/test_storage.py::test_googles_client_does_not_try_for_minutes_below_our_own_attempts",
    ),
    Mutant(
        "a delete has no limit as a whole",
        "clients/storage.py",
        "store_of(path, self.properties).ask(attempt)",
        "attempt()",
        "clients/test_timeouts.py::test_a_delete_whose_answer_trickles_in_is_given_up_as_a_whole",
    ),
    Mutant(
        "the loop waits for a store that was silent once for each job that ends",
        "iceberg/waited_for.py",
        "            silent.failed()",
        "            pass",
        "iceberg/test_waited_for.py::test_a_store_that_was_silent_is_not_waited_for_again_and_another_is",
    ),
    Mutant(
        "a database that was away for a moment is of another kind for good",
        "clients/first_answers.py",
        'if found != (catalog._schema_version == "v1"):',
        "if False:",
        "clients/test_first_answers.py::"
        "test_a_database_that_is_away_for_a_moment_is_not_taken_for_another_kind",
    ),
    Mutant(
        "the client of each table holds its connections for good",
        "clients/connected.py",
        "            oldest.fs_by_scheme.cache_clear()",
        "            pass",
        "clients/test_connected.py::test_tables_with_keys_of_their_own_do_not_each_hold_connections_for_good",
    ),
    Mutant(
        "a process without an open file takes its store for silent",
        "clients/retries.py",
        "    if is_shortage(err):\n        return False",
        "    if False:\n        return False",
        "clients/test_storage.py::test_an_answer_is_no_silence_whatever_the_file_is_called",
    ),
    Mutant(
        "a bucket without a region is in us-east-1 for good",
        "clients/storage.py",
        "            self.fs_by_scheme.cache_clear()",
        "            pass",
        "clients/test_regions.py::test_a_bucket_whose_region_is_not_told_now_is_asked_for_again",
    ),
    Mutant(
        "each bucket waits by itself for an S3 that says nothing",
        "clients/regions.py",
        "            self._silence.failed()",
        "            pass",
        "clients/test_regions.py::test_an_s3_that_says_nothing_is_waited_for_once_and_not_for_each_bucket",
    ),
    Mutant(
        "a store that is silent is a catalog that is away",
        "iceberg/errors.py",
        "    if isinstance(cause, StoreSilentError):\n        return False\n",
        "",
        "iceberg/test_silent_stores.py::test_the_silence_of_a_store_is_not_that_of_the_catalog",
    ),
    Mutant(
        "a tag on what was rolled back keeps its table from being compacted",
        "iceberg/unpublished.py",
        " and ref.snapshot_ref_type is SnapshotRefType.BRANCH",
        "",
        "iceberg/test_unpublished.py::test_a_tag_on_what_was_rolled_back_waits_for_nobody",
    ),
    Mutant(
        "branches of a clock that is ahead hide one that waits",
        "iceberg/unpublished.py",
        "place = max(near - 1, 0)",
        "place = 0",
        "iceberg/test_unpublished.py::test_branches_of_a_clock_that_is_ahead_hide_none_that_waits_now",
    ),
    Mutant(
        "a rewrite fails where the system gives no thread for its small files",
        "iceberg/compaction/local_copy.py",
        "except RuntimeError:  # the system gives no thread",
        "except ZeroDivisionError:  # the system gives no thread",
        "iceberg/compaction/test_local_copy.py::"
        "test_where_the_system_gives_fewer_threads_small_files_are_fetched_all_the_same",
    ),
    Mutant(
        "each step over what nobody can unpack has all tables reconciled",
        "kafka/step_over.py",
        "if stretch.steps == 1 or beyond >= high > 0:",
        "if True:",
        "kafka/test_step_over.py::test_a_stretch_is_told_when_it_begins_and_when_it_is_over",
    ),
    Mutant(
        "what was passed by in the end of a stretch is never told",
        "kafka/step_over.py",
        "return None if stretch is None else stretch.untold()",
        "return None",
        "kafka/test_step_over.py::test_a_stretch_is_told_when_it_begins_and_when_it_is_over",
    ),
    Mutant(
        "a column that may not be added reads as a moment without an answer",
        "clients/first_answers.py",
        'if not found and catalog.properties.get("schema_version") == "v1":',
        "if False:",
        "clients/test_first_answers.py::test_a_column_that_may_not_be_added_is_asked_of_a_person",
    ),
    Mutant(
        "the name of a branch is repeated however long it is",
        "iceberg/unpublished.py",
        "if len(name) <= MOST_SAID else",
        "if True else",
        "iceberg/test_unpublished.py::test_the_name_of_a_branch_is_cut",
    ),
    Mutant(
        "the same error of a client is a step each time",
        "kafka/step_over.py",
        "found.pop(part, None)",
        "found",
        "kafka/test_step_over.py::test_who_got_on_since_an_error_is_not_stuck",
    ),
    Mutant(
        "keys of any width are kept as long as the daemon runs",
        "iceberg/manifests/counts.py",
        "are_few = len(values) <= FIELDS_KEPT and",
        "are_few = True and",
        "iceberg/manifests/test_counts.py::test_keys_of_many_fields_are_not_kept",
    ),
    Mutant(
        "a store that is not the daemon's to open is tried every five seconds",
        "store/database.py",
        "return not path.exists() or (path.is_file() and os.access(path, os.R_OK | os.W_OK))",
        "return True",
        "daemon/test_start.py::test_a_store_that_is_not_the_daemons_to_open_waits_for_a_person",
    ),
    Mutant(
        "an index that does not fit its table ends the daemon at each start",
        "daemon.py",
        "    if is_damage(err):\n",
        "    if False:\n",
        "daemon/test_start.py::test_where_sqlite_says_that_a_store_is_damaged_the_next_start_looks_through_both",
    ),
    Mutant(
        "a store in which SQLite found damage is looked through quickly all the same",
        "store/damage.py",
        "is_suspect = mark.exists()",
        "is_suspect = False",
        "store/test_damage.py::"
        "test_a_fold_whose_index_did_not_reach_the_disk_is_made_again_at_the_start_after",
    ),
    Mutant(
        "a ledger of which the indexes were made again is believed",
        "store/damage.py",
        '                self.hold(Hold(HoldKind.LEDGER, own, "", text, now_ms), told=False)\n',
        "",
        "store/test_damage.py::"
        "test_a_ledger_whose_index_did_not_reach_the_disk_has_it_made_again_and_deletes_nothing",
    ),
    Mutant(
        "what SQLite cannot add up ends the daemon",
        "store/database.py",
        "if str(err) not in _OF_ROWS:",
        "if True:",
        "store/test_database.py::test_rows_that_cannot_be_reckoned_with_are_no_trouble_of_the_store",
    ),
    Mutant(
        "a snapshot that is listed twice ends the daemon",
        "store/fold/tables.py",
        "for s in once.values()\n                if s.snapshot_id",
        "for s in astray\n                if s.snapshot_id",
        "store/test_fold.py::test_a_snapshot_that_metadata_lists_twice_is_kept_once",
    ),
    Mutant(
        "what jobs have read is no number any more",
        "store/ledger/operations.py",
        "SELECT TOTAL(bytes) FROM operations",
        "SELECT COALESCE(SUM(bytes), 0) FROM operations",
        "store/test_operations.py::test_what_jobs_have_read_is_added_up_however_much_it_was_said_to_be",
    ),
    Mutant(
        "a file is as large as its manifest says",
        "iceberg/compaction/local_copy.py",
        "if is_longer or listed_bytes > TIMES * size_bytes + SLACK_BYTES:",
        "if is_longer:",
        "iceberg/compaction/test_local_copy.py::test_a_file_that_is_much_shorter_than_its_manifest_says_is_not_read",
    ),
    # What is wrong many times
    Mutant(
        "all of an error is looked at, which may be all of a metadata file",
        "iceberg/errors.py",
        "str(err)[:LOOKED_AT]",
        "str(err)",
        "iceberg/test_catalog.py::"
        "test_of_an_error_that_repeats_what_an_owner_wrote_no_more_is_looked_at_than_is_told",
    ),
    Mutant(
        "a partition of doubles has another name in the audit than for the daemon",
        "clients/catalog.py",
        "read_whole_doubles()",
        "pass",
        "audit/test_evidence_reader.py::test_a_partition_has_the_name_in_the_audit_that_intents_and_the_daemon_give_it[double]",
    ),
    Mutant(
        "what is wrong in metadata is noted as often as it is there",
        "clients/catalog.py",
        "stop_at_first_fault()",
        "pass",
        "clients/test_pyiceberg_models.py::test_a_thousand_faults_of_one_kind_are_told_as_those_of_the_first",
    ),
    Mutant(
        "what is wrong in a map of an event is noted as often as it is there",
        "contract/first_fault.py",
        "if isinstance(given, Mapping):",
        "if False:",
        "contract/test_events.py::test_of_a_thousand_faults_of_one_kind_the_first_is_noted",
    ),
    Mutant(
        "a schema keeps a long name once for each column in it",
        "clients/pyiceberg_models.py",
        "if around > MAX_NAMES_AROUND * count:",
        "if False:",
        "clients/test_pyiceberg_models.py::test_full_names_of_columns_do_not_multiply",
    ),
    Mutant(
        "metadata may have as many values as fit into its bytes",
        "clients/metadata_file.py",
        "if marks > MAX_METADATA_VALUES and not _has_few_values(whole):",
        "if False:",
        "clients/test_metadata_file.py::test_more_values_than_a_table_has_are_not_looked_at",
    ),
    Mutant(
        "commas in a text are taken for values",
        "clients/metadata_file.py",
        " and not _has_few_values(whole)",
        "",
        "clients/test_metadata_file.py::test_commas_in_a_text_are_no_values",
    ),
    # Threads, and a metastore's connections
    Mutant(
        "a thread that has its answer closes the connection on which another waits",
        HIVE,
        "self._here = _Here()",
        "self._here = type('Here', (), {'uses': []})()",
        OF_HIVE + "test_a_thread_is_answered_what_it_has_asked_whoever_asks_beside_it",
    ),
    Mutant(
        "as many connections to a metastore are open as threads ask",
        HIVE,
        "BoundedSemaphore(CONNECTIONS)",
        "BoundedSemaphore(1000)",
        OF_HIVE + "test_no_more_connections_than_so_many_are_open_at_once",
    ),
    Mutant(
        "a connection to a metastore that failed stays open",
        HIVE,
        "                transport.close()\n",
        "                self._kept = [*getattr(self, '_kept', ()), transport]\n",
        OF_HIVE + "test_what_is_refused_or_missing_leaves_no_connection_open",
    ),
    Mutant(
        "a property of a table is where Glue finds its metadata",
        GLUE,
        "if name not in RESERVED}",
        "}",
        OF_GLUE + "test_a_property_that_has_the_name_of_glues_pointer_moves_nothing",
    ),
    Mutant(
        "an entry in Glue may name metadata that nobody has just written",
        GLUE,
        "        if named != self._here.staged:",
        "        if False:",
        OF_GLUE + "test_an_entry_that_would_name_other_metadata_than_was_written_is_not_sent",
    ),
    Mutant(
        "the log repeats what clients say of secrets",
        "runtime/logs.py",
        "self._stream.write(without_secrets(text))",
        "self._stream.write(text)",
        "runtime/test_secrets.py::test_no_line_of_the_log_has_a_secret_whoever_writes_it",
    ),
    Mutant(
        "an answer as JSON repeats what clients say of secrets",
        "commands/terminal.py",
        "return without_secrets(str(value))",
        "return str(value)",
        "commands/test_terminal.py::test_no_secret_is_in_an_answer_as_json",
    ),
    Mutant(
        "a line that ends within a secret shows the rest of it",
        "commands/terminal.py",
        "renderable = renderable.blank_copy(told)",
        "pass",
        "commands/test_terminal.py::test_no_secret_is_printed_however_narrow_the_terminal_is",
    ),
    Mutant(
        "the ledger repeats what clients say of secrets",
        "store/ledger/operations.py",
        "outcome_why=without_secrets(outcome.why),",
        "outcome_why=outcome.why,",
        "store/test_secrets.py::test_a_why_is_kept_without_the_secrets_in_it",
    ),
    Mutant(
        "a provider of tokens is waited for in PyIceberg's own way",
        "clients/tokens.py",
        "    if isinstance(manager, OAuth2AuthManager):",
        "    if False:",
        "clients/test_tokens.py::test_a_token_is_asked_for_once_and_what_is_sent_is_what_pyiceberg_sends",
    ),
    Mutant(
        "the same page of a list is kept again and again",
        "clients/pages.py",
        "        if page in self._seen:",
        "        if False:",
        "clients/test_pages.py::test_the_same_page_for_the_same_token_comes_once",
    ),
    Mutant(
        "the answer to a question that was redirected is read twice",
        "clients/rest.py",
        "    if isinstance(answer.raw, io.BytesIO):",
        "    if False:",
        OF_THE_CLIENT + "test_a_catalog_that_redirects_a_question_is_followed",
    ),
    # Lent keys, and who chooses code, hosts and keys
    Mutant(
        "a client of files is kept when the keys that it was lent were renewed",
        "clients/file_clients.py",
        "key = (scheme, frozenset((name, str(value)) for name, value in properties.items()))",
        "key = (scheme, frozenset(properties))",
        (
            "clients/test_properties_of_tables.py::"
            "test_what_the_server_vends_for_a_table_is_what_its_files_are_read_with"
        ),
    ),
    Mutant(
        "the properties of a table of a REST catalog choose who reads its files",
        "clients/rest.py",
        'bare = metadata.model_copy(update={"properties": {}})',
        "bare = metadata.model_copy()",
        (
            "clients/test_properties_of_tables.py::"
            "test_what_the_server_vends_for_a_table_is_what_its_files_are_read_with"
        ),
    ),
    Mutant(
        "the properties of a table of any other catalog choose who reads its files",
        CLIENT,
        "files = clients.of(EMPTY_DICT, location)",
        "files = load_file_io({**catalog.properties, **properties}, location)",
        "clients/test_properties_of_tables.py::test_the_properties_of_a_table_reach_neither_the_client_of_its_files_nor_that_of_a_rewrite",
    ),
    Mutant(
        "the paths of a table choose the host that is asked for its files",
        "clients/name_nodes.py",
        "name_node(host) not in {*operators, *given}",
        "not host",
        "clients/test_name_nodes.py::"
        "test_a_manifest_list_on_another_host_sets_its_table_aside_and_nobody_asks_there",
    ),
    Mutant(
        "the properties of a table choose who reads its files in a rewrite",
        "iceberg/compaction/rewrite.py",
        "load_file_io(properties_with_retries(io_properties), metadata.location)",
        "load_file_io(properties_with_retries({**io_properties, **metadata.properties}), metadata.location)",
        "clients/test_properties_of_tables.py::test_the_table_of_a_rewrite_chooses_no_code",
    ),
    Mutant(
        "a rewrite is not lent the keys with which the table is read",
        "iceberg/maintainer.py",
        "self._executor.start(job, described(table.metadata), plain_properties(table.io))",
        "self._executor.start(job, described(table.metadata), {})",
        (
            "clients/test_properties_of_tables.py::"
            "test_a_rewrite_gets_the_properties_with_which_the_table_is_read_here"
        ),
    ),
    Mutant(
        "a server's redirection sends a commit to another host",
        "clients/rest.py",
        '"allow_redirects": False',
        '"allow_redirects": True',
        OF_THE_CLIENT + "test_a_catalog_that_redirects_a_request_to_change_something_is_not_followed",
    ),
    Mutant(
        "a server's configuration hides snapshots",
        "clients/rest.py",
        'self.properties[SNAPSHOT_LOADING_MODE] = "all"',
        'self.properties.setdefault(SNAPSHOT_LOADING_MODE, "all")',
        OF_THE_CLIENT + "test_every_snapshot_is_asked_for_whatever_the_server_configures",
    ),
    # What an audit finds afterwards
    Mutant(
        "an audit lets a hot hour be rewritten because its day is over",
        "audit/promises.py",
        "return min(spans, key=lambda span: span[1] - span[0], default=None)",
        "return max(spans, key=lambda span: span[1] - span[0], default=None)",
        "audit/test_cold_only.py::test_of_several_times_of_a_partition_the_narrowest_counts",
    ),
    # What probes and alerts answer from
    Mutant(
        "a loop that is stuck counts as alive",
        HEALTH,
        "return now_s - self.ticked_at_s < TICK_LIMIT_S",
        "return True",
        HTTP + "test_a_loop_that_stands_still_is_not_ready_long_before_it_counts_as_stuck",
    ),
    Mutant(
        "a daemon is restarted because a catalog keeps it waiting for two minutes",
        HEALTH,
        "return now_s - self.ticked_at_s < TICK_LIMIT_S",
        "return now_s - self.ticked_at_s < SLOW_LIMIT_S",
        "service/test_hour_of_silence.py::test_the_loop_lives_through_an_hour_of_silence_and_then_goes_on",
    ),
    Mutant(
        "a loop that waits counts as ready",
        HEALTH,
        "stands_s >= SLOW_LIMIT_S",
        "False",
        HTTP + "test_a_loop_that_stands_still_is_not_ready_long_before_it_counts_as_stuck",
    ),
    Mutant(
        "a daemon without a catalog counts as ready",
        HEALTH,
        '(self.catalog_answers, "the catalog does not answer"',
        '(True, "the catalog does not answer"',
        HTTP + "test_each_thing_that_a_daemon_needs_is_missed_by_name",
    ),
    Mutant(
        "a daemon without policies counts as ready",
        HEALTH,
        '(self.has_policies, "no policy is loaded"',
        '(True, "no policy is loaded"',
        HTTP + "test_each_thing_that_a_daemon_needs_is_missed_by_name",
    ),
    Mutant(
        "a daemon without tables counts as ready",
        HEALTH,
        '(self.is_assigned, "the control topic is not assigned"',
        '(True, "the control topic is not assigned"',
        HTTP + "test_each_thing_that_a_daemon_needs_is_missed_by_name",
    ),
    Mutant(
        "a catalog that nobody has asked is blamed",
        HEALTH,
        "unasked if state is None else wrong",
        "wrong",
        HTTP + "test_nothing_is_blamed_that_was_not_asked",
    ),
    Mutant(
        "what the start waits for is not told",
        HEALTH,
        "if self.waits_for:",
        "if False:",
        HTTP + "test_nothing_is_blamed_that_was_not_asked",
    ),
    Mutant(
        "nobody is told that a round had to do without the catalog",
        ROUNDS,
        "self.away.labels(kind).set(kind in what.away)",
        "self.away.labels(kind).set(0)",
        ALERTS,
    ),
    Mutant(
        "nobody is told that deletions are held",
        ROUNDS,
        "self.deletions_held.set(what.deletions_held)",
        "self.deletions_held.set(0)",
        ALERTS,
    ),
    Mutant(
        "nobody is told of a lost ledger until the next round",
        ROUNDS,
        "                self.deletions_held.set(1)\n",
        "                pass\n",
        ALERTS,
    ),
    Mutant(
        "nobody is told of a store that does not answer",
        ROUNDS,
        "self.trouble.labels(what.kind).inc()",
        "self.trouble.labels(what.kind)",
        ALERTS,
    ),
    Mutant(
        "nobody is told that no round ends any more",
        ROUNDS,
        "self.last_round.set(self._now_ms() / 1000)",
        "self.last_round.set_to_current_time()",
        ALERTS,
    ),
    Mutant(
        "nobody is told that a table is halted",
        TABLES,
        "self._of(self.halted, what.table.name).set(1)",
        "self._of(self.halted, what.table.name).set(0)",
        ALERTS,
    ),
    Mutant(
        "a table that was halted is shown as if it were not",
        TABLES,
        "self._of(self.halted, name).set(what.halted)",
        "self._of(self.halted, name).set(0)",
        ALERTS,
    ),
    Mutant(
        "nobody is told that a table is set aside",
        TABLES,
        "self._of(self.failing, what.name).set(1)",
        "self._of(self.failing, what.name).set(0)",
        ALERTS,
    ),
    Mutant(
        "a table that has recovered is shown as set aside for ever",
        TABLES,
        "self._series.drop(self.failing, what.name)",
        "pass",
        ALERTS,
    ),
    Mutant(
        "nobody is told for how long something is due",
        TABLES,
        "(self._now_ms() - since_ms) / 1000",
        "0",
        ALERTS,
    ),
    Mutant(
        "nobody is told of quarantined partitions",
        TABLES,
        'self._of(self.partitions, name, "quarantined").set(what.quarantined)',
        'self._of(self.partitions, name, "quarantined").set(0)',
        ALERTS,
    ),
    Mutant(
        "jobs whose end is never told are kept for ever",
        "telemetry/job_metrics.py",
        "if len(self._started) > MOST_STARTED:",
        "if False:",
        (
            "telemetry/test_metrics.py::"
            "test_of_jobs_whose_end_is_never_told_the_oldest_count_as_those_of_an_earlier_process"
        ),
    ),
    Mutant(
        "an expiry that ends stops the compactions that run, in their gauge",
        "telemetry/job_metrics.py",
        "if what.still_running is not None:\n            self.running.set(what.still_running)",
        "self.running.set(what.still_running or 0)",
        (
            "telemetry/test_metrics.py::"
            "test_the_end_of_what_is_no_running_compaction_leaves_those_that_run_in_their_gauge"
        ),
    ),
    Mutant(
        "a daemon that starts on a full disk waits for a person",
        "daemon.py",
        "err.may_pass if isinstance(err, StoreError) else err.errno in PASSING",
        "err.may_pass if isinstance(err, StoreError) else False",
        "daemon/test_start.py::test_a_start_is_tried_again_where_what_keeps_the_state_from_being_used_may_pass",
    ),
    Mutant(
        "a daemon whose store is locked when it starts waits for a person",
        "store/database.py",
        "return isinstance(self.__cause__, StoreBusy) and (self._path is None or _is_ours(self._path))",
        "return False",
        "daemon/test_start.py::test_so_it_is_where_a_store_says_that",
    ),
    Mutant(
        "nobody is told that a state drifted",
        "telemetry/healing_metrics.py",
        "self._of(self.drift, what.table.name).inc()",
        "self._of(self.drift, what.table.name)",
        ALERTS,
    ),
    Mutant(
        "nobody is told that events were lost",
        "telemetry/event_metrics.py",
        "self.events_lost.inc()",
        "pass",
        ALERTS,
    ),
    Mutant(
        "a batch of rejected messages counts as one",
        "telemetry/event_metrics.py",
        "self.events_rejected.inc(what.messages)",
        "self.events_rejected.inc()",
        ALERTS,
    ),
    Mutant(
        "each attempt to connect to a broker that is away is a line of the log",
        "kafka/troubles.py",
        "if pause.left_s > 0:",
        "if pause.left_s > 1e9:",
        "kafka/test_troubles.py::test_each_kind_of_trouble_is_told_once_per_pause",
    ),
    Mutant(
        "the daemon waits for ever for a broker to take its leave",
        "kafka/broker.py",
        "closing.join(within_s)",
        "closing.join()",
        "kafka/test_broker.py::test_a_consumer_that_cannot_take_its_leave_is_not_waited_for",
    ),
    Mutant(
        "a catalog without tables is told with every list",
        "service/tables/catalog_lists.py",
        "(self.newest is None or self.newest.names)",
        "True",
        "service/tables/test_listing.py::test_a_catalog_without_tables_is_told_once_as_one_of_another_name_would_be",
    ),
)
