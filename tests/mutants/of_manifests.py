"""Mistakes in rewrites of a table's manifests."""

from mutants.mutant import Mutant

ONE = "iceberg/compaction/one_commit.py"
MANIFESTS = "iceberg/compaction/replaced_manifests.py"
SNAPSHOT = "iceberg/compaction/replace_snapshot.py"
SERVICE = "service/jobs/manifest_rewrites.py"
COMMITS = "iceberg/compaction/test_rewritten_manifests.py::"
WORK = "service/jobs/test_manifest_rewrites.py::"

MUTANTS = (
    Mutant(
        "manifests that can never become one are due for ever",
        "core/planner/whole_table.py",
        "least = 0 if facts.needless_manifests is None else facts.manifests - facts.needless_manifests",
        "least = 0",
        "core/planner/test_whole_table.py::test_the_table_as_a_whole_has_verdicts_too",
    ),
    Mutant(
        "a rewrite of manifests that sends nothing holds up all other commits",
        SERVICE,
        "        if operation.sent_at_ms is None:\n",
        "        if False:\n",
        WORK + "test_one_that_fails_waits_longer_each_time",
    ),
    Mutant(
        "manifests that read back otherwise than they were written are committed",
        MANIFESTS,
        "if written != said:",
        "if False:",
        COMMITS + "test_what_reads_back_otherwise_is_not_committed",
    ),
    Mutant(
        "main is moved while a branch waits to be published",
        ONE,
        "                    check_main(job, table.metadata, self.now_ms)\n",
        "",
        COMMITS + "test_main_does_not_move_while_a_branch_waits_to_be_published",
    ),
    Mutant(
        "manifests are rewritten though there are no fewer then",
        SNAPSHOT,
        "if len(manifests) >= len(listed):",
        "if len(manifests) > len(listed) + 1:",
        COMMITS + "test_what_is_one_already_is_left_alone",
    ),
    Mutant(
        "manifests are put together in the order of their age",
        "iceberg/manifests/which_are_rewritten.py",
        "key=lambda one: (_place(metadata, spec_id, one), *_age(one))",
        "key=_age",
        "iceberg/manifests/test_which_are_rewritten.py::test_neighbours_by_partition_go_together_whatever_came_first",
    ),
    Mutant(
        "nobody looks once more before manifests are swapped",
        SERVICE,
        "        if against:\n            return against\n",
        "",
        WORK + "test_a_table_that_somebody_holds_at_the_last_moment_is_left_alone",
    ),
    Mutant(
        "a rewrite of manifests whose end nobody knows counts as failed",
        SERVICE,
        "outcome = self.own_commits.settled(operation, job, may_land=may_land)",
        "outcome = self.own_commits.settled(replace(operation, asserted_head_id=None), replace(job, job_id='x'), may_land=may_land)",
        WORK + "test_a_lost_answer_is_looked_up_and_nothing_is_done_twice",
    ),
    Mutant(
        "a second rewrite of manifests begins while nobody knows the end of the first",
        SERVICE,
        "or self.ledger.is_open(uuid, Action.REWRITE_MANIFESTS)",
        "",
        WORK + "test_while_the_end_of_one_is_open_no_other_begins",
    ),
    Mutant(
        "our own snapshot is not followed after manifests were rewritten",
        SERVICE,
        "            self.own_commits.follow(operation.table.name, outcome.snapshot_id)\n",
        "",
        WORK + "test_many_manifests_become_one_and_everybody_is_told",
    ),
    Mutant(
        "the entries of manifests are counted, and not what they say",
        "iceberg/manifests/which_are_rewritten.py",
        "self.hash = (self.hash + _hash(entry)) % 2**128",
        "self.hash = 0",
        COMMITS + "test_what_reads_back_otherwise_is_not_committed",
    ),
)
