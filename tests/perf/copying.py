"""DuckDB's COPY of files into one, alone in a process: `copying.py`, and on its input the files of each copy as JSON.

Nothing else is imported, so that its memory is DuckDB's.
"""

import json
import sys

import duckdb


def copied(paths, into):
    """The rows of some files in one, as a tool without Iceberg would write them."""
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute(
            f"COPY (SELECT * FROM read_parquet(?)) TO '{into}' (FORMAT parquet, CODEC zstd)", [paths]
        )


if __name__ == "__main__":
    for into, paths in json.load(sys.stdin).items():
        copied(paths, into)
