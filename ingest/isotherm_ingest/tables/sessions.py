"""Spark sessions of the threads that write tables: one for each, whatever table it writes.

A session's views, settings and active session are used by one thread at a time, so those of tables that are written side
by side never meet. A table leaves nothing behind there: an attempt makes its views again, says its own settings, and
lets go of the views at its end. Each session has a catalog of its own in the JVM, with connections to the catalog's
database that nobody closes. With a session for each table, some ninety tables took all that PostgreSQL has.
"""

import threading

from pyspark.sql import SparkSession

from isotherm_ingest.spark_session import FORCED


class Sessions:
    """The session of each thread, made when that first asks."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._local = threading.local()

    @property
    def own(self) -> SparkSession:
        """That of the calling thread."""
        if not hasattr(self._local, "session"):
            session = self._spark.newSession()
            for key, value in FORCED.items():
                session.conf.set(key, value)
            self._local.session = session
        own: SparkSession = self._local.session
        return own
