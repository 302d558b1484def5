"""Mistakes in how the processes begin and end in which rewrites run."""

from mutants.mutant import Mutant

EXECUTOR = "iceberg/compaction/process_executor.py"
PROCESSES = "iceberg/compaction/test_process_executor.py::"
UPGRADED = "iceberg/compaction/test_upgraded_below.py::"

MUTANTS = (
    Mutant(
        "a partition is blamed for an upgrade below a daemon that runs",
        EXECUTOR,
        "if code_on_disk() != OUR_CODE:",
        "if False:",
        UPGRADED + "test_of_a_job_that_cannot_begin_in_the_middle_of_an_upgrade_it_is_told_what_to_do",
    ),
    Mutant(
        "code counts as the daemon's own by the names of its files",
        "iceberg/compaction/code_on_disk.py",
        "            found.update(path.read_bytes())\n",
        "            pass\n",
        UPGRADED + "test_whatever_both_sides_must_mean_alike_makes_it_other_code",
    ),
    Mutant(
        "an answer that cannot be read loses those of other jobs",
        EXECUTOR,
        "    except Exception as err:  # noqa: BLE001 (whatever the bytes make",
        "    except KeyError as err:  # noqa: BLE001 (whatever the bytes make",
        PROCESSES + "test_an_answer_that_cannot_be_read_takes_no_other_with_it",
    ),
)
