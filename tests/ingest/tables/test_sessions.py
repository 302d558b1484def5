"""Sessions of Spark: as many as threads that write, and not as many as tables."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.cut_back_topics import CutTopics
from isotherm_ingest.batches.tables import Tables
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.spark_session import FORCED
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.lake import Lake
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import TableWriter
from support.pipelines import CONFIG
from support.writes import Spark


class Counting(Spark):
    """Each of its sessions is another one."""

    def __init__(self):
        super().__init__()
        self.made = []

    def newSession(self):  # noqa: N802 (Spark's name)
        self.made.append(Spark())
        return self.made[-1]


def test_a_thread_has_one_session_however_many_tables_it_writes_and_no_other_thread_has_it():
    spark, together = Counting(), Barrier(3, timeout=60)
    sessions = Sessions(spark)

    def write_ten(_):
        together.wait()
        return {id(sessions.own) for _ in range(10)}

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(write_ten, range(3)))

    assert [len(one) for one in found] == [1, 1, 1]
    assert set.union(*found) == {id(one) for one in spark.made}
    assert [one.conf for one in spark.made] == [FORCED] * 3


def test_tables_that_are_met_take_no_session():
    """Each has a catalog of its own in the JVM, with connections that nobody closes."""
    spark = Counting()
    config = parse_yaml(CONFIG, "streams.yaml", StreamsConfig)
    tools = Tools(Lake("lake", {}), None, None, Metrics(), "shop", None)
    tables = Tables(config, spark, tools, None, TableWriter, CutTopics(None), lambda: None)
    for number in range(100):
        tables.meet(f"shop.t{number}", config.streams[0], [f"shop.public.t{number}"], lambda _: None)
    tables.stop()

    assert len(tables.names()) == 100
    assert spark.made == []
