"""Mistakes in how the processes begin and end in which rewrites run."""

from mutants.mutant import Mutant

EXECUTOR = "iceberg/compaction/process_executor.py"
PROCESSES = "iceberg/compaction/test_process_executor.py::"
FORKS = "iceberg/compaction/test_forks.py::"
ON_DISK = "runtime/test_code_on_disk.py::"
UPGRADED = "iceberg/compaction/test_upgraded_below.py::"
OTHER_CODE = (
    "service/jobs/test_other_code.py::"
    "test_while_other_code_lies_below_it_a_daemon_begins_no_rewrite_and_says_so_once"
)

MUTANTS = (
    Mutant(
        "a partition is blamed for an upgrade below a daemon that runs",
        EXECUTOR,
        "if is_other_code():",
        "if False:",
        UPGRADED + "test_of_a_job_that_cannot_begin_in_the_middle_of_an_upgrade_it_is_told_what_to_do",
    ),
    Mutant(
        "a partition is blamed where another copy is imported for its rewrites",
        EXECUTOR,
        "if exit_code == OTHER_CODE:",
        "if False:",
        UPGRADED + "test_where_another_copy_is_imported_for_rewrites_it_says_which_and_what_to_do",
    ),
    Mutant(
        "a daemon below which another version lies begins rewrites",
        "service/rounds/due_work.py",
        "is_wanted and self.own_code.is_there() and ",
        "is_wanted and ",
        OTHER_CODE,
    ),
    Mutant(
        "writers are asked for windows in which nothing can begin",
        "service/rounds/rounds.py",
        "if self.due.own_code.is_there():",
        "if True:",
        OTHER_CODE,
    ),
    Mutant(
        "a daemon tells again and again that another version lies below it",
        "service/rounds/own_code.py",
        "if was_there and not",
        "if not",
        OTHER_CODE,
    ),
    Mutant(
        "code counts as the daemon's own by the names of its files",
        "runtime/code_on_disk.py",
        "            found.update(path.read_bytes())\n",
        "            pass\n",
        ON_DISK + "test_whatever_a_rewrite_runs_makes_it_other_code",
    ),
    Mutant(
        "compiled code alone is no code, and an upgrade of it goes unnoticed",
        "runtime/code_on_disk.py",
        '{".py", ".pyc"}',
        '{".py"}',
        ON_DISK + "test_whatever_a_rewrite_runs_makes_it_other_code",
    ),
    Mutant(
        "what a rewrite runs of other folders may be other code",
        "runtime/code_on_disk.py",
        "            for name in names\n",
        "            for name in names * (Path(folder) == root)\n",
        ON_DISK + "test_whatever_a_rewrite_runs_makes_it_other_code",
    ),
    Mutant(
        "an answer that cannot be read loses those of other jobs",
        EXECUTOR,
        "    except Exception as err:  # noqa: BLE001 (whatever the bytes make",
        "    except KeyError as err:  # noqa: BLE001 (whatever the bytes make",
        PROCESSES + "test_an_answer_that_cannot_be_read_takes_no_other_with_it",
    ),
    Mutant(
        "whoever cancels a job waits until the program that would fork it is awake",
        EXECUTOR,
        "if not worker.call_off():",
        "if True:",
        FORKS + "test_nobody_waits_for_a_job_that_is_cancelled_while_it_wakes_up_and_the_others_go_on",
    ),
    Mutant(
        "a partition is blamed where its job's process was ended because of another job",
        EXECUTOR,
        "if was_beside:",
        "if False:",
        FORKS + "test_what_ran_beside_a_job_for_which_it_was_ended_has_done_nothing_wrong",
    ),
    Mutant(
        "a job that is killed while its program is slow is excused, and begun again for ever",
        EXECUTOR,
        "return _death(exit_code_of(running.worker), was_beside=was_beside)",
        "return _death(exit_code_of(running.worker), was_beside=running.worker.was_given_up)",
        FORKS
        + "test_what_is_killed_while_the_program_is_too_slow_to_say_so_is_killed_and_what_ran_beside_it_stopped",
    ),
    Mutant(
        "a job that nobody has begun counts as too large",
        "iceberg/compaction/deadline.py",
        "Reason.DEADLINE if has_begun else Reason.UNAVAILABLE",
        "Reason.DEADLINE",
        FORKS + "test_one_that_never_wakes_up_is_replaced_and_its_job_is_not_too_large",
    ),
    Mutant(
        "where no file can be opened, another version was installed",
        "runtime/code_on_disk.py",
        "    except OSError:\n        return False\n",
        "    except OSError:\n        return True\n",
        ON_DISK + "test_where_no_file_can_be_opened_nobody_says_that_another_version_was_installed",
    ),
    Mutant(
        "links in a circle are followed for ever",
        "runtime/code_on_disk.py",
        "if where[one] not in seen]",
        "if where[one]]",
        ON_DISK + "test_links_in_a_circle_are_followed_once",
    ),
    Mutant(
        "code behind a link is no code",
        "runtime/code_on_disk.py",
        "followlinks=True",
        "followlinks=False",
        ON_DISK + "test_code_in_a_folder_that_is_a_link_counts",
    ),
    Mutant(
        "a daemon starts with code of two versions, and takes whatever is half installed later for its own",
        "runtime/code_on_disk.py",
        "if found == CHANGING:",
        "if False:",
        ON_DISK + "test_while_files_come_and_go_it_is_nobodys_code_and_nothing_starts",
    ),
)
