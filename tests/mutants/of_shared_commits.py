"""Mistakes in commits of several jobs, and in what begins between two rounds."""

from mutants.mutant import Mutant

COMMITTER = "iceberg/compaction/committer.py"
MANIFESTS = "iceberg/compaction/replaced_manifests.py"
COMPACTIONS = "service/jobs/compactions.py"
ENDED = "service/jobs/ended_rewrites.py"
DUE = "service/rounds/due_work.py"
COMMITS = "iceberg/compaction/test_commits_together.py::"
SERVICE = "service/jobs/test_commits_together.py::"

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
        COMMITTER,
        "            self.swaps.remove(swap)\n",
        "",
        COMMITS + "test_a_job_that_must_not_be_is_left_out_and_nothing_of_it_remains[1]",
    ),
    Mutant(
        "the request for those that are left still has the files of one that is not",
        COMMITTER,
        "self.snapshot, self.has_dropped = self._new_snapshot(), True",
        "self.has_dropped = True",
        COMMITS + "test_a_job_that_must_not_be_is_left_out_and_nothing_of_it_remains[1]",
    ),
    Mutant(
        "a job that is refused after its request went out counts as failed",
        COMMITTER,
        "        if self.asserted_head_id is not None:\n            return self._unknown(refusal.why)\n",
        "",
        COMMITS + "test_a_job_that_is_refused_after_a_request_of_unknown_end_is_unknown_and_the_others_go_on",
    ),
    Mutant(
        "what is left behind is told of each job",
        COMMITTER,
        "leftovers = () if place else end.leftovers",
        "leftovers = end.leftovers",
        COMMITS + "test_a_job_that_must_not_be_is_left_out_and_nothing_of_it_remains[0]",
    ),
    Mutant(
        "what an earlier request left behind is forgotten",
        COMMITTER,
        "self.now_ms, self.known, self.written)",
        "self.now_ms, self.known, [])",
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
        "rows that differ are left to the others of the commit",
        COMMITTER,
        "if swap.job.job_id not in ends]:",
        "if True]:",
        COMMITS + "test_rows_that_differ_are_that_jobs_alone",
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
        SERVICE + "test_a_small_one_waits_for_others_of_its_table_and_not_for_long",
    ),
    Mutant(
        "jobs of two tables go in one commit",
        ENDED,
        "if not is_alike or other.partition in partitions:",
        "if other.partition in partitions:",
        SERVICE + "test_only_what_is_of_one_table_policy_and_partition_each_goes_together",
    ),
    Mutant(
        "two jobs of a partition go in one commit",
        ENDED,
        "if not is_alike or other.partition in partitions:",
        "if not is_alike:",
        SERVICE + "test_only_what_is_of_one_table_policy_and_partition_each_goes_together",
    ),
    Mutant(
        "any number of jobs goes in one commit",
        ENDED,
        "if len(found) + 1 >= MOST_JOBS or files > MOST_FILES:",
        "if files > MOST_FILES:",
        SERVICE + "test_a_commit_has_no_more_jobs_than_are_looked_through_quickly",
    ),
    Mutant(
        "what is left of a round begins as it was planned",
        DUE,
        "return self.verdicts.compaction_of(row, self.flights(uuid), key)",
        "return at_head",
        SERVICE + "test_what_is_left_is_decided_once_more_before_it_begins[written]",
    ),
    Mutant(
        "what is left of a round begins on a table that another daemon has by now",
        DUE,
        "        if not self.owns(uuid):\n            return None\n",
        "",
        SERVICE + "test_what_is_left_is_decided_once_more_before_it_begins[given away]",
    ),
    Mutant(
        "what is left of a round begins though it is held back by now",
        "service/rounds/rounds.py",
        "            and self.holds.refresh(DRAIN_TIMEOUT_S)\n",
        "",
        SERVICE + "test_what_is_left_is_decided_once_more_before_it_begins[paused]",
    ),
    Mutant(
        "a slot that is free waits for the next round",
        "service/loop.py",
        "elif has_left and self.pace.has_room:",
        "elif False:",
        SERVICE + "test_what_is_left_begins_in_the_slots_that_become_free",
    ),
)
