"""PySpark's daemon, which forks the workers, with what they need imported: a new worker costs nothing then.

Spark ends a worker that has been idle for a minute, and importing took longer than decoding a small batch.
"""

import duckdb  # noqa: F401 (as below)
from pyspark.daemon import manager

import isotherm_ingest.workers.reading
import isotherm_ingest.workers.writing  # noqa: F401 (that is the point)

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]
