"""The proof of a rewrite: whether the files that were written hold the rows that were read.

The process of the job read both with DuckDB, and summed up a hash of each row (`row_sums`). Here the sums are compared,
with each other and with what the manifests say. What differs is a mismatch, and a mismatch commits nothing.
"""

from isotherm.core.model.jobs import CompactionJob, MergedDeletes, Rewrite


def mismatch(job: CompactionJob, rewrite: Rewrite) -> str | None:
    """Why the written files do not hold the rows that were read, if they do not."""
    if rewrite.job_id != job.job_id:
        return f"the files belong to job {rewrite.job_id}, not to {job.job_id}"
    known = sum(file.rows for file in job.data_files)
    if rewrite.rows_read != known:
        return f"{rewrite.rows_read} rows were read, the manifests say {known}"
    expected = rewrite.rows_read - rewrite.rows_deleted
    listed = sum(file.rows for file in rewrite.files)
    if not expected == rewrite.rows_written == listed:
        return (
            f"{rewrite.rows_read} rows less {rewrite.rows_deleted} deleted ones are {expected}; "
            f"{rewrite.rows_written} were read back, and the new files say {listed}"
        )
    if rewrite.hash_read != rewrite.hash_written:
        return (
            f"the {expected} rows read back differ from those that were read: "
            f"sum of hashes {rewrite.hash_written:x}, not {rewrite.hash_read:x}"
        )
    return _of_deletes(rewrite.merged)


def _of_deletes(merged: MergedDeletes) -> str | None:
    """The same of deletes on files that stay."""
    listed = sum(file.rows for file in merged.files)
    if not merged.positions_read == merged.positions_written == listed:
        return (
            f"{merged.positions_read} rows are deleted in files that stay; {merged.positions_written} were read back, "
            f"and the new delete files say {listed}"
        )
    if merged.hash_read != merged.hash_written:
        return (
            f"the {listed} deleted rows read back differ from those that were read: "
            f"sum of hashes {merged.hash_written:x}, not {merged.hash_read:x}"
        )
    return None
