"""The properties of the Spark session: whose word wins, in one process and on a cluster."""

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.spark_session import FORCED, public, session_conf
from isotherm_ingest.streams import StreamsConfig

STREAMS = """
pipeline: shop
catalog: {name: lake, properties: {type: rest, uri: "http://catalog"}}
kafka: {properties: {bootstrap.servers: "kafka:9092"}}
spark: {master: MASTER, jars: [a.jar], conf: {spark.executor.cores: "2"}}
streams: [{topics: "x", table: "shop.x"}]
"""
CLUSTER = "spark://host:7077"


def config(master):
    return parse_yaml(STREAMS.replace("MASTER", f'"{master}"'), "streams.yaml", StreamsConfig)


def test_what_spark_submit_was_told_wins_over_streams_yaml():
    told = {"spark.master": CLUSTER, "spark.executor.cores": "4", "spark.jars": "b.jar"}

    conf = session_conf(config("local[2]"), told)

    assert told == {key: conf[key] for key in told}
    assert "spark.driver.extraClassPath" not in conf


def test_what_the_promises_stand_on_wins_over_spark_submit():
    told = {**dict.fromkeys(FORCED, "other"), "spark.sql.catalog.lake.cache-enabled": "true"}

    conf = session_conf(config("local[2]"), {"spark.app.name": "submit.py", **told})

    assert FORCED.items() <= conf.items()
    assert "false" == conf["spark.sql.catalog.lake.cache-enabled"]
    assert "isotherm-ingest shop" == conf["spark.app.name"]


def test_executors_of_a_cluster_are_not_sent_to_their_own_machine_for_the_driver():
    assert "127.0.0.1" == session_conf(config("local[2]"))["spark.driver.host"]
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & session_conf(config(CLUSTER)).keys()


def test_a_task_that_finds_no_memory_does_not_end_the_jvm_in_which_all_tables_are_written():
    name = "spark.executor.killOnFatalError.depth"

    assert "0" == session_conf(config("local[2]"))[name]
    assert name not in session_conf(config(CLUSTER)), "an executor of its own ends, and is started again"


def test_no_secret_is_on_the_command_line_of_the_jvm():
    """Each user of the machine can read it."""
    secrets = ["credential: 'id:hidden'", "s3.secret-access-key: hidden", "token: hidden"]
    own = "header.X-Api-Key: hidden, header.Authorization: hidden"
    text = STREAMS.replace('"http://catalog"', f'"http://catalog", {", ".join(secrets)}')
    text = text.replace("}}\nkafka", f"}}, spark: {{{own}}}}}\nkafka").replace("MASTER", '"local[2]"')
    text = text.replace(
        'spark.executor.cores: "2"', 'spark.authenticate.secret: hidden, spark.executor.cores: "2"'
    )

    conf = session_conf(parse_yaml(text, "streams.yaml", StreamsConfig))
    started_with = public(conf)

    assert len([one for one in conf.values() if "hidden" in one]) == 6
    assert "hidden" not in str(started_with)
    assert {
        "spark.master",
        "spark.driver.memory",
        "spark.driver.extraClassPath",
        "spark.executor.cores",
    } <= started_with.keys()
