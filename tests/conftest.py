"""What every test gets: hypothesis without clocks, `--rewrite` for the stories, one Spark session, real servers."""

import gc
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import support.remembered  # noqa: F401 (what is worked out once is so for each test)
from isotherm.demo.stack import Kafka, Stack
from support.lab import Lab
from support.memory_disk import use_memory
from support.quick_catalog import make_catalogs_quick

# A machine that does something else meanwhile must not fail a law.
settings.register_profile(
    "isotherm", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)

settings.register_profile("quick", settings.get_profile("isotherm"), max_examples=20)
settings.load_profile("isotherm")


def pytest_configure(config):
    """Folders in memory, and quick catalogs, for this process and xdist's; each has its priority."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what it does not wait for so. Tests of Ctrl-C, and programs that they start, need it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    use_memory()
    make_catalogs_quick()
    if hasattr(config, "workerinput"):
        from support.division import take_place

        take_place(config)


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the stories in tests/stories answer now into them; read the diff, keep what you want",
    )
    parser.addoption(
        "--seeds", help="the seeds that `make soak` plays, first..last; each test has its own otherwise"
    )
    parser.addoption(
        "--for",
        dest="soak_for",
        help="how long `make soak` plays the simulation and the killer, with seeds that nobody played before (60m), "
        "and the demo (20m)",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """What is shared stays in one process."""
    from support.division import Division

    return Division(config, log)


def pytest_collection_modifyitems(config, items):
    """The long tests run where somebody asks for them: `make soak`. The others have an order where several processes play them."""
    if hasattr(config, "workerinput"):
        from support.division import in_turn

        in_turn(items)
    if "soak" in (config.getoption("-m") or ""):
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if not item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Nothing of what is imported and collected goes again: to look for garbage meanwhile takes a fifth of the time."""
    del session
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session):
    """What was imported and collected stays until the end: the collector looks at it no more, as in the daemon."""
    del session
    gc.freeze()


@pytest.fixture
def seeds(request):
    """The seeds of a long test: those that `--seeds` names, or its own."""

    def chosen(own):
        first, _, last = (request.config.getoption("--seeds") or own).partition("..")
        return range(int(first), int(last or first) + 1)

    return chosen


@pytest.fixture(scope="session")
def spark_jars(tmp_path_factory, pytestconfig):
    """What a Spark session needs beside Spark's own jars. Drivers start from an archive of their classes then."""
    from isotherm.demo.stack import find_java, jar_paths
    from support.class_archive import start_drivers_from_archive

    find_java()
    jars = jar_paths("spark", tmp_path_factory.mktemp("jars"))
    start_drivers_from_archive(pytestconfig.rootpath / ".pytest_cache" / "classes", jars)
    return jars


@pytest.fixture(scope="session")
def lake_folder(tmp_path_factory):
    """Where `spark` and `lake` keep their tables; the properties of both sides."""
    from support.spark import Lake

    # With a space: it must do no harm, to anybody.
    return Lake(tmp_path_factory.mktemp("a lake"))


@pytest.fixture(scope="session")
def lake(lake_folder):
    """The PyIceberg catalog."""
    from pyiceberg.catalog import load_catalog

    from support.spark import CATALOG

    return load_catalog(CATALOG, **lake_folder.pyiceberg_properties)


@pytest.fixture(scope="session")
def spark(lake, lake_folder, spark_jars, tmp_path_factory):
    """A Spark session that sees the same tables as `lake.<namespace>.<table>`."""
    from support.spark import start_session

    session = start_session(lake_folder, spark_jars, tmp_path_factory.mktemp("a session"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory):
    """Spark's Connect server: `.remote` is its address. A test that ends it starts it again."""
    from support.spark_connect import ConnectServer

    server = ConnectServer(tmp_path_factory.mktemp("connect"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker: `.bootstrap_servers`, `.create_topic(name, partitions=1, config=None)`."""
    root = tmp_path_factory.mktemp("kafka")
    with Stack(root, postgres=False, connect=False) as stack:
        yield stack.kafka


@pytest.fixture(scope="session")
def shop_stack(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """PostgreSQL, Kafka Connect and the same broker: `.postgres_dsn`, `.connect`, `.kafka`, …"""
    with Stack(tmp_path_factory.mktemp("a shop"), kafka=kafka) as stack:
        yield stack


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.executor.stop()


@pytest.fixture(autouse=True)
def _logs_as_they_were():
    """Whatever a test sets up of logs ends with it: they may go to a stream that is closed by then."""
    yield
    if (structlog := sys.modules.get("structlog")) is not None:
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
