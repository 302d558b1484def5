"""The local stack: it starts, does real work, is watched, and leaves nothing behind."""

import contextlib
import itertools
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, Producer

from isotherm.demo.stack import Kafka, Postgres, Process, Stack, StackError, find_java
from isotherm.demo.stack.connect import Connect, debezium_config
from isotherm.demo.stack.process import group_members

pytestmark = pytest.mark.stack

GONE_WITHIN_S = 20


def family(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def still_there(processes: list[psutil.Process], within_s: float = GONE_WITHIN_S) -> list[psutil.Process]:
    """Those that have not ended when the time is over. Orphans of ours become zombies where no init reaps them."""
    _, alive = psutil.wait_procs(processes, within_s)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def next_message(kafka: Kafka, topic: str) -> bytes:
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "a-test", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(60)
        while message is not None and message.error():
            message = consumer.poll(60)
        assert message is not None, f"nothing arrived on {topic}"
        return bytes(message.value())
    finally:
        consumer.close()


# Java


def a_java(home: Path, says: str) -> dict[str, str]:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho {shlex.quote(says)} >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(home), "PATH": ""}


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19'])
def test_a_java_that_spark_runs_on_is_taken(tmp_path: Path, says: str) -> None:
    environ = a_java(tmp_path / "a jdk", says)

    assert tmp_path / "a jdk" / "bin" / "java" == find_java(environ)


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('java version "1.8.0_412"', "version 8"),
        ('openjdk version "11.0.2" 2019-01-15', "version 11"),
        ('openjdk version "25" 2025-09-16', "version 25"),
        ("no idea", "version unknown"),
    ],
)
def test_a_wrong_java_is_one_line_that_names_it_and_the_remedy(
    tmp_path: Path, says: str, version: str
) -> None:
    environ = a_java(tmp_path / "jdk", says)

    with pytest.raises(StackError) as refused:
        find_java(environ)

    line = str(refused.value)
    assert "\n" not in line
    assert all(part in line for part in ("Java 17", version, str(tmp_path / "jdk"), "install"))


def test_no_java_is_one_line(tmp_path: Path) -> None:
    for environ in ({"PATH": str(tmp_path)}, {"PATH": "", "JAVA_HOME": str(tmp_path)}):
        with pytest.raises(StackError) as refused:
            find_java(environ)

        assert "\n" not in str(refused.value)
        assert "install Java 17" in str(refused.value)


# A process


def shell(name: str, script: str, folder: Path) -> Process:
    return Process(name, ["sh", "-c", script], folder / f"{name}.log")


def test_a_process_that_dies_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = shell("server", "echo an old story; seq 1 100; echo the reason >&2; exit 3", tmp_path)
    process.start()

    with pytest.raises(StackError) as report:
        process.wait_until(lambda: False, 60)

    text = str(report.value)
    assert text.startswith("server ended with exit code 3")
    assert text.endswith("\nthe reason")
    assert "an old story" not in text


def test_a_process_that_is_never_ready_is_reported_and_goes_on(tmp_path: Path) -> None:
    process = shell("server", "echo still trying; exec sleep 1000", tmp_path)
    process.start()
    process.wait_until(lambda: "still trying" in process.log_tail(), 60)

    with pytest.raises(
        StackError, match=r"server did not get so far that it answers within 0.1 s(.|\n)*still trying"
    ):
        process.wait_until(lambda: False, 0.1, "answers")

    process.check()
    process.stop()
    assert process.exit_code == -signal.SIGTERM


def test_stop_takes_the_children_along_even_deaf_ones(tmp_path: Path) -> None:
    process = shell("server", "(trap '' TERM; sleep 1000; sleep 1000) & wait", tmp_path)
    process.start()
    # The shell, the subshell and its sleep.
    process.wait_until(lambda: len(group_members(process.pid)) == 3, 60)

    process.stop(within_s=0.5)

    assert group_members(process.pid) == []


def test_a_process_starts_again_after_a_kill_and_keeps_its_log(tmp_path: Path) -> None:
    process = shell("server", "echo hello; exec sleep 1000", tmp_path)
    process.start()
    process.wait_until(lambda: process.log_tail() == "hello", 60)
    process.kill()

    assert process.wait(60) == -signal.SIGKILL
    with pytest.raises(StackError, match="was killed by SIGKILL"):
        process.check()

    process.start()
    process.wait_until(lambda: process.log_tail() == "hello\nhello", 60)
    process.stop()


def test_a_process_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    process = shell("server", "exec sleep 1000", tmp_path)
    thread = threading.Thread(target=process.start)
    thread.start()
    thread.join()

    # The parent-death signal of a thread comes with its end, at once or never.
    assert process.wait(0.5) is None
    process.stop()


# Servers


@dataclass(frozen=True)
class Life:
    """What was seen of a stack's life in a folder."""

    folder: Path
    listening: dict[str, set[str]]
    left_over: list[psutil.Process]


def addresses(processes: list[psutil.Process]) -> set[str]:
    found = set()
    for process in processes:
        # A backend of PostgreSQL goes a moment after its client.
        with contextlib.suppress(psutil.NoSuchProcess):
            connections = process.net_connections("inet")
            found |= {
                connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN
            }
    return {address.removeprefix("::ffff:") for address in found}


@pytest.fixture(scope="module")
def first_life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A folder with a space in its name, in which a whole stack has lived, worked and been stopped."""
    folder = tmp_path_factory.mktemp("a folder")
    with Stack(folder) as stack:
        stack.kafka.create_topic("kept", partitions=3, config={"retention.ms": "123456"})
        producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
        producer.produce("kept", b"a message")
        assert producer.flush(30) == 0
        with psycopg.connect(stack.postgres_dsn) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        stack.check()
        families = {part.process.name: family(part.process.pid) for part in stack.parts}
        listening = {name: addresses(members) for name, members in families.items()}
    assert len(families["PostgreSQL"]) > 1
    return Life(folder, listening, still_there([*itertools.chain(*families.values())], within_s=0))


@pytest.fixture
def used_folder(first_life: Life) -> Path:
    return first_life.folder


def test_nothing_is_left_after_a_stop(first_life: Life) -> None:
    assert first_life.left_over == []


def test_everything_listens_on_the_loopback_alone(first_life: Life) -> None:
    assert first_life.listening == {name: {"127.0.0.1"} for name in ("PostgreSQL", "Kafka", "Kafka Connect")}


def test_a_second_start_finds_what_the_first_has_left(used_folder: Path) -> None:
    with Stack(used_folder, connect=False) as stack:
        message = next_message(stack.kafka, "kept")
        with psycopg.connect(stack.postgres_dsn) as connection:
            answer = connection.execute("SELECT answer FROM kept").fetchone()

    assert message == b"a message"
    assert answer == (42,)


def test_a_folder_serves_one_stack_at_a_time(used_folder: Path) -> None:
    with (
        Stack(used_folder, kafka=False, connect=False),
        pytest.raises(StackError, match=f"in use by process {os.getpid()}"),
    ):
        Stack(used_folder, kafka=False, connect=False).start()


def test_a_server_that_dies_is_named_and_the_others_are_stopped(used_folder: Path) -> None:
    with Stack(used_folder, connect=False) as stack:
        stack.check()
        stack.kafka.process.kill(signal.SIGKILL)
        stack.kafka.process.wait(60)

        with pytest.raises(
            StackError,
            match=r"Kafka was killed by SIGKILL; the end of .*kafka\.log:\n(.|\n)*Kafka Server started",
        ):
            stack.check()
        postgres = family(stack.postgres.process.pid)

    assert still_there(postgres, within_s=0) == []


def test_a_server_that_cannot_start_says_why_and_stops_the_others(tmp_path: Path) -> None:
    Postgres(tmp_path / "postgres").prepare()
    settings = tmp_path / "postgres" / "data" / "postgresql.auto.conf"
    settings.write_text("no_such_setting = 1\n")
    stack = Stack(tmp_path, connect=False)

    with pytest.raises(StackError, match=r"PostgreSQL ended with exit code 1(.|\n)*no_such_setting"):
        stack.start()

    assert not stack.kafka.process.is_running


@pytest.fixture
def taken_ports() -> Iterator[list[int]]:
    sockets = [socket.socket() for _ in range(2)]
    for held in sockets:
        held.bind(("127.0.0.1", 0))
        held.listen()
    yield [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()


def test_a_server_whose_port_was_taken_takes_another(
    taken_ports: list[int], kafka: Kafka, tmp_path: Path
) -> None:
    postgres, broker = Postgres(tmp_path / "postgres"), Kafka(tmp_path / "kafka")
    worker = Connect(tmp_path / "connect", kafka.bootstrap_servers)
    try:
        with ThreadPoolExecutor() as pool:
            starts = [
                pool.submit(postgres.start, taken_ports[:1]),
                pool.submit(broker.start, taken_ports),
                pool.submit(worker.start, taken_ports[:1]),
            ]
        for start in starts:
            start.result()

        assert postgres.port not in taken_ports
        assert broker.create_topic("works") == "works"
        assert not worker.connector_is_running("none")
    finally:
        for part in (worker, broker, postgres):
            part.stop()


PARENT = """
import pathlib, sys
from isotherm.demo.stack import Stack
with Stack(pathlib.Path(sys.argv[1]), kafka=sys.argv[2] == "kafka", connect=False) as stack:
    print(*(part.process.pid for part in stack.parts), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("sig", "servers"), [(signal.SIGKILL, "kafka"), (signal.SIGTERM, "no kafka"), (signal.SIGINT, "no kafka")]
)
def test_nothing_outlives_its_parent(used_folder: Path, sig: signal.Signals, servers: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, used_folder, servers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        processes = [process for pid in parent.stdout.readline().split() for process in family(int(pid))]
        assert len(processes) > 2

        parent.send_signal(sig)

        assert still_there(processes) == []
        assert parent.wait(60) != 0


def test_a_row_becomes_a_debezium_envelope(shop_stack: Stack) -> None:
    with psycopg.connect(shop_stack.postgres_dsn) as connection:
        connection.execute("CREATE TABLE stack_test (id int PRIMARY KEY, price numeric(9,2), note text)")
        connection.execute("INSERT INTO stack_test VALUES (1, 12.50, NULL)")
    config = debezium_config(
        shop_stack.postgres,
        "stack",
        table__include__list="public.stack_test",
        slot__name="stack_test",
        publication__name="stack_test",
        publication__autocreate__mode="filtered",
        decimal__handling__mode="string",
    )
    shop_stack.connect.start_connector("stack", config)
    try:
        message = json.loads(next_message(shop_stack.kafka, "stack.public.stack_test"))
    finally:
        shop_stack.connect.stop_connector("stack")

    assert message["payload"]["after"] == {"id": 1, "price": "12.50", "note": None}
    assert message["schema"]["name"] == "stack.public.stack_test.Envelope"


def test_a_connector_that_is_refused_or_fails_says_why(shop_stack: Stack) -> None:
    config = debezium_config(shop_stack.postgres, "refused")

    with pytest.raises(StackError, match="password authentication failed"):
        shop_stack.connect.start_connector("refused", {**config, "database.password": "wrong"})
    with pytest.raises(StackError, match="Failed to find any class that implements Connector"):
        shop_stack.connect.start_connector("unknown", {**config, "connector.class": "org.example.None"})
