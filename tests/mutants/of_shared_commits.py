"""Mistakes in commits of several jobs, in what begins between two rounds, and in rewrites on a cluster."""

from mutants.mutant import Mutant

COMMITTER = "iceberg/compaction/committer.py"
ONE = "iceberg/compaction/one_commit.py"
MANIFESTS = "iceberg/compaction/replaced_manifests.py"
COMPACTIONS = "service/jobs/compactions.py"
ENDED = "service/jobs/ended_rewrites.py"
TURNS = "core/planner/test_turns.py::"
DUE = "service/rounds/due_work.py"
COMMITS = "iceberg/compaction/test_commits_together.py::"
SERVICE = "service/jobs/test_commits_together.py::"
OF_ENDED = "service/jobs/test_ended_rewrites.py::"
OF_DUE_WORK = "service/rounds/test_due_work.py::"
OF_SLOTS = "service/jobs/test_job_slots.py::"

MUTANTS = (
    Mutant(
        "what stands against one job stands against all of its commit",
        "service/jobs/last_look.py",
        "found[job_id] = against\n        moved",
        "found |= dict.fromkeys(jobs, against)\n        moved",
        SERVICE + "test_what_turns_hot_at_the_last_moment_is_left_out_alone",
    ),
    Mutant(
        "a job that is refused goes in with the others",
        ONE,
        "            self.swaps.remove(swap)\n",
        "",
        COMMITS + "test_a_job_that_must_not_be_is_left_out_and_nothing_of_it_remains[1]",
    ),
    Mutant(
        "the request for those that are left still has the files of one that is not",
        ONE,
        "            self._begin_anew()\n            self.has_dropped = True\n",
        "            self.has_dropped, self.discarded = True, len(self.written)\n",
        COMMITS + "test_a_job_that_must_not_be_is_left_out_and_nothing_of_it_remains[1]",
    ),
    Mutant(
        "a job that is refused after its request went out counts as failed",
        ONE,
        "        if self.asserted_head_id is not None:\n            return self._unknown(refusal.why)\n",
        "",
        COMMITS + "test_a_job_that_is_refused_after_a_request_of_unknown_end_is_unknown_and_the_others_go_on",
    ),
    Mutant(
        "what is left behind is told of each job",
        ONE,
        "leftovers = () if place else end.leftovers",
        "leftovers = end.leftovers",
        COMMITS + "test_a_job_that_must_not_be_is_left_out_and_nothing_of_it_remains[0]",
    ),
    Mutant(
        "what an earlier request left behind is forgotten",
        ONE,
        "self.known, self.written, self.is_stopped)",
        "self.known, [], self.is_stopped)",
        COMMITS + "test_a_job_that_must_not_be_is_left_out_and_nothing_of_it_remains[1]",
    ),
    Mutant(
        "all files of a commit have the sequence number of its first job",
        MANIFESTS,
        "number, order = job.base_sequence_number, rewrite.sort_order_id",
        "number, order = self.swaps[0].job.base_sequence_number, rewrite.sort_order_id",
        COMMITS + "test_each_file_has_the_sequence_number_of_its_own_job",
    ),
    Mutant(
        "a snapshot says the first of its jobs alone",
        "iceberg/compaction/replace_summary.py",
        "if len(ids) > 1:",
        "if False:",
        COMMITS + "test_they_are_one_snapshot_which_says_whose_it_is",
    ),
    Mutant(
        "where rows differ the rest of the commit goes through",
        COMMITTER,
        "    if ends:\n",
        "    if False:\n",
        COMMITS + "test_where_rows_differ_nothing_more_of_the_table_is_committed",
    ),
    Mutant(
        "a manifest that is gone is trouble of all jobs of a commit",
        ONE,
        "if len(self.swaps) > 1 and not self.was_sent:",
        "if False:",
        COMMITS + "test_a_manifest_that_is_gone_is_trouble_of_its_partition_alone",
    ),
    Mutant(
        "what a request that was given up left behind is forgotten where nobody can look",
        ONE,
        "leftovers=tuple(self.written[: self.discarded]) if is_newest else ()",
        "leftovers=()",
        COMMITS + "test_what_a_request_that_was_given_up_left_behind_is_told_also_where_nobody_can_look",
    ),
    Mutant(
        "a job that is refused costs the others an attempt",
        ONE,
        "lost += not self.has_dropped",
        "lost += 1",
        COMMITS + "test_many_that_are_refused_one_after_another_take_no_other_with_them",
    ),
    Mutant(
        "who has lost a race waits for a turn of the loop again",
        "iceberg/asking.py",
        "(wait_s if asker.asked > 1 else min(wait_s, first_s))",
        "min(wait_s, first_s)",
        "iceberg/test_asking.py::test_who_asks_again_is_waited_for_though_others_run",
    ),
    Mutant(
        "a commit that did something holds up the next for a job that was left out",
        COMPACTIONS,
        "            self.operations.went_through(Action.COMPACT)\n",
        "            pass\n",
        SERVICE + "test_a_commit_that_did_something_holds_up_no_other_for_the_job_that_was_left_out",
    ),
    Mutant(
        "small jobs of a table share the one that its policy allows",
        "service/rounds/admission.py",
        "plans, self.compactions.by_table()",
        "plans, {}",
        OF_SLOTS + "test_a_policy_that_allows_one_job_at_once_means_one",
    ),
    Mutant(
        "those that were to go in a commit that did not begin are never heard of again",
        COMPACTIONS,
        "            self._ended.extend(((swap.job.job_id, swap.rewrite) for swap in swaps[1:]), now_s)\n",
        "",
        SERVICE + "test_a_mistake_as_a_commit_begins_takes_no_other_job_with_it",
    ),
    Mutant(
        "a small job waits for ever for others",
        ENDED,
        "or now_s - heard_s >= WAITS_S:",
        "or False:",
        OF_ENDED + "test_a_small_one_waits_for_others_of_its_table_and_not_for_long",
    ),
    Mutant(
        "jobs of two tables go in one commit",
        ENDED,
        "if not (is_alike and is_apart):",
        "if not is_apart:",
        OF_ENDED + "test_only_what_is_of_one_table_policy_and_partition_each_goes_together",
    ),
    Mutant(
        "two jobs of a partition go in one commit",
        ENDED,
        "if not (is_alike and is_apart):",
        "if not is_alike:",
        OF_ENDED + "test_only_what_is_of_one_table_policy_and_partition_each_goes_together",
    ),
    Mutant(
        "any number of jobs goes in one commit",
        ENDED,
        "if len(found) + 1 >= MOST_JOBS or files > MOST_FILES:",
        "if files > MOST_FILES:",
        OF_ENDED + "test_a_commit_has_no_more_jobs_than_are_looked_through_quickly",
    ),
    Mutant(
        "what is left of a round begins as it was planned",
        DUE,
        "return None if again is None else replace(again, executor=planned.executor)",
        "return planned",
        OF_DUE_WORK + "test_what_is_left_is_decided_once_more_before_it_begins[written]",
    ),
    Mutant(
        "what is left of a round begins on a table that another daemon has by now",
        DUE,
        "if row is None or not self.owns(uuid):",
        "if row is None:",
        OF_DUE_WORK + "test_what_is_left_is_decided_once_more_before_it_begins[given away]",
    ),
    Mutant(
        "what is left of a round begins though it is held back by now",
        "service/rounds/rounds.py",
        "            and self.holds.refresh(DRAIN_TIMEOUT_S)\n",
        "",
        OF_DUE_WORK + "test_what_is_left_is_decided_once_more_before_it_begins[paused]",
    ),
    Mutant(
        "a slot that is free waits for the next round",
        "service/loop.py",
        "elif has_left and self.pace.has_room:",
        "elif False:",
        OF_DUE_WORK + "test_what_is_left_begins_in_the_slots_that_become_free",
    ),
    Mutant(
        "the token of a cluster's address stands in a why",
        "iceberg/compaction/spark_executor.py",
        "why = without_secrets(",
        "why = str(",
        "iceberg/compaction/test_spark_away.py::test_no_token_of_the_address_is_told",
    ),
    Mutant(
        "an answer of any length is taken",
        "iceberg/compaction/spark_answer.py",
        "if len(answer) > MOST_ANSWER_BYTES:",
        "if False:",
        "iceberg/compaction/test_spark_answer.py::test_an_answer_is_a_value_or_nothing[too long]",
    ),
    Mutant(
        "a cluster that is full keeps small jobs waiting",
        "service/jobs/running_compactions.py",
        "[one for one in self.unwritten if one.executor is executor]",
        "self.unwritten",
        OF_SLOTS + "test_what_waits_for_the_cluster_keeps_no_small_job_waiting",
    ),
    Mutant(
        "manifests of an earlier request are written over",
        COMMITTER,
        "written=list(written)",
        "written=[]",
        COMMITS + "test_what_was_written_for_all_is_written_over_by_none_and_told_once",
    ),
    Mutant(
        "workers of another build rewrite",
        "iceberg/compaction/spark_task.py",
        "if code_there != OUR_CODE:",
        "if version_there != OUR_VERSION:",
        "iceberg/compaction/test_spark_task.py::test_other_code_is_told_before_anything_is_read_of_the_task",
    ),
    Mutant(
        "a program of ours has no client of Spark",
        "iceberg/compaction/spark_executor.py",
        "    with_pandas()\n",
        "",
        "iceberg/compaction/test_spark_away.py::test_whoever_asks_a_cluster_finds_pandas_from_then_on",
    ),
    Mutant(
        "the session of an abandoned job stays as it is",
        "iceberg/compaction/spark_executor.py",
        "            session.interruptAll()\n            session.stop()\n",
        "            pass\n",
        "iceberg/compaction/test_spark_away.py::test_an_abandoned_job_is_ended_in_its_own_session",
    ),
    Mutant(
        "an abandoned job of this machine is looked for on the cluster",
        "iceberg/compaction/executors.py",
        "self._of(job).cancel_abandoned(job)",
        "self._cluster.cancel_abandoned(job)",
        "iceberg/compaction/test_executors.py::test_an_abandoned_job_is_ended_where_it_runs[local-asked0]",
    ),
    Mutant(
        "what a dead daemon has begun on a cluster goes on",
        "service/jobs/compactions.py",
        "        if operation.sent_at_ms is None:\n",
        "        if False:\n",
        "service/jobs/test_crashing_jobs.py::"
        "test_the_job_of_a_daemon_that_died_is_ended_where_it_may_run_still",
    ),
    Mutant(
        "small jobs go to the cluster",
        "iceberg/compaction/executors.py",
        "if job.executor is ExecutorName.SPARK else self._local",
        "if True else self._local",
        "iceberg/compaction/test_executors.py::test_a_job_runs_where_it_says",
    ),
    Mutant(
        "a job does not run where it was let in",
        "service/jobs/beginning_compactions.py",
        "replace(bound.job, executor=operation.executor, window_id=window_id)",
        "replace(bound.job, window_id=window_id)",
        OF_SLOTS + "test_a_policy_says_where_jobs_of_its_table_run_and_there_they_stay",
    ),
    Mutant(
        "what is left of a budget is kept for nothing that waits for a cluster",
        "core/planner/turns.py",
        "            if _has_waited_long(request, now_ms):\n                break\n",
        "            if _has_waited_long(request, now_ms) and queue.executor is ExecutorName.LOCAL:\n                break\n",
        TURNS + "test_what_becomes_free_is_kept_for_what_waits_for_a_cluster_too[of all]",
    ),
    Mutant(
        "budgets are kept for what waits for a cluster that is full",
        "core/planner/turns.py",
        "        if slots[queue.executor] <= 0:\n",
        "        if False:\n",
        TURNS + "test_what_becomes_free_is_kept_for_what_waits_for_a_cluster_too[of all]",
    ),
    Mutant(
        "jobs of thousands of tiny files share a slot",
        ENDED,
        " and operation.files_planned <= SMALL_FILES",
        "",
        OF_ENDED + "test_a_small_one_waits_for_others_of_its_table_and_not_for_long",
    ),
    Mutant(
        "what was not begun keeps its slot until the next round",
        DUE,
        "        while len(tried) > before:\n            before = len(tried)\n",
        "        while started > before:\n            before = started\n",
        "service/rounds/test_due_work.py::"
        "test_what_somebody_wrote_since_it_was_planned_does_not_begin_and_takes_no_slot[written0]",
    ),
    Mutant(
        "what a round has planned begins as it was planned, once the head is confirmed",
        DUE,
        "        if key is not None:\n            again",
        "        if key is not None and is_confirmed:\n            return planned\n        if key is not None:\n            again",
        "service/rounds/test_due_work.py::"
        "test_what_somebody_wrote_since_it_was_planned_does_not_begin_and_takes_no_slot[written0]",
    ),
    Mutant(
        "updates count as files that come late",
        "core/state.py",
        "0 if is_update else delta.added.files",
        "delta.added.files",
        "core/test_state.py::test_what_is_updated_later_does_not_come_late[updated]",
    ),
    Mutant(
        "names of files in the answer of a cluster are believed",
        "iceberg/compaction/spark_answer.py",
        "if [file.path for file in found.all_files] != names:",
        "if False:",
        "iceberg/compaction/test_spark_answer.py::"
        "test_what_no_rewrite_of_the_job_would_say_is_not_believed[another's file]",
    ),
    Mutant(
        "bounds in the answer of a cluster are believed",
        "iceberg/compaction/spark_answer.py",
        "from_bytes(cast(PrimitiveType, schema.find_type(field_id)), value)",
        "pass",
        "iceberg/compaction/test_spark_answer.py::"
        "test_what_no_rewrite_of_the_job_would_say_is_not_believed[bounds that are no text]",
    ),
    Mutant(
        "a million names of files that stay go to the cluster with a task",
        "iceberg/compaction/spark_task.py",
        "task = replace(task, job=replace(task.job, bystanders=frozenset()))",
        "pass",
        "iceberg/compaction/test_spark_task.py::test_what_a_rewrite_does_not_ask_for_stays_here",
    ),
    Mutant(
        "a table that is served on the cluster has had its turn on this machine",
        "core/planner/turns.py",
        "if (served_at_ms := room.served_at_ms.get(executor)) is not None:",
        "if (served_at_ms := max(room.served_at_ms.values(), default=None)) is not None:",
        TURNS + "test_with_a_cluster_too_a_table_waits_no_longer_than_the_docs_say",
    ),
    Mutant(
        "a table's jobs in the one place take all of its limits, while others of it wait for the other",
        "core/planner/turns.py",
        "queue.limits.are_some and is_its_hour",
        "False",
        TURNS + "test_what_becomes_free_is_kept_for_what_waits_for_a_cluster_too[of the table]",
    ),
    Mutant(
        "a cluster that hangs keeps the jobs of a table on this machine waiting for ever",
        "core/planner/turns.py",
        "// KEPT_AFTER_MS % 2 == 1",
        ">= KEPT_AFTER_MS",
        TURNS + "test_a_cluster_that_hangs_keeps_no_job_of_its_table_waiting_for_ever",
    ),
)
