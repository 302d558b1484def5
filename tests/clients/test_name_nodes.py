"""A host of HDFS is asked where the operator or the catalog names it, and nowhere else."""

import json
from pathlib import Path

import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem, SubTreeFileSystem

from isotherm.clients.name_nodes import MOST, ForeignHostError
from isotherm.clients.storage import RetryingFileIO, plain_properties
from isotherm.core import observations as seen
from support.lab import Lab, of

OURS, EVIL = "hdfs://ours:8020", "hdfs://evil:8020"


class Hadoop:
    """PyArrow's client of HDFS, which needs a JVM: each host is a folder."""

    root: Path
    asked: set[str]

    def __new__(cls, host="default", port=8020):
        return cls.from_uri(f"hdfs://{host}:{port}")

    @classmethod
    def from_uri(cls, uri):
        cls.asked.add(uri)
        folder = cls.root / uri.partition("://")[2]
        folder.mkdir(exist_ok=True)
        return SubTreeFileSystem(str(folder), PyFileSystem(FSSpecHandler(LocalFileSystem(auto_mkdir=True))))


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """The hosts that were asked."""
    Hadoop.root, Hadoop.asked = tmp_path, set()
    monkeypatch.setattr(pyarrow.fs, "HadoopFileSystem", Hadoop)
    return Hadoop.asked


@pytest.fixture
def lab(tmp_path, hosts):
    """Two tables on HDFS, whose host nothing but the catalog's own locations names."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    made = Lab(tmp_path, properties={"type": "sql", "uri": uri, "warehouse": f"{OURS}/warehouse"})
    for name in ("shop.aaa", "shop.bbb"):
        table = made.create(name)
        for hour in (1, 1, 1, 9, 9):
            made.append(table, hour)
    hosts.clear()
    return Lab(tmp_path, properties={"type": "sql", "uri": uri}, topic=made.topic, rows=made.rows)


def change(lab, table, edit):
    """Change the newest metadata of a table, as its owner may."""
    location = table.refresh().metadata_location
    path = lab.root / location.removeprefix("hdfs://")
    metadata = json.loads(path.read_text())
    edit(metadata)
    path.write_text(json.dumps(metadata))


def with_list(metadata):
    for snapshot in metadata["snapshots"]:
        snapshot["manifest-list"] = f"{EVIL}/warehouse/snap-1.avro"


def with_place(name):
    return lambda metadata: metadata["properties"].update({name: f"{EVIL}/warehouse"})


def test_tables_on_a_host_that_the_catalog_names_are_maintained(lab, hosts):
    service = lab.settled()

    assert {(one.table.name, one.reason) for one in of(lab, seen.JobEnded)} == {
        ("shop.aaa", "committed"),
        ("shop.bbb", "committed"),
    }
    assert hosts == {OURS}
    service.stop()


def test_a_manifest_list_on_another_host_sets_its_table_aside_and_nobody_asks_there(lab, hosts):
    change(lab, lab.catalog.load_table("shop.aaa"), with_list)
    service = lab.settled()

    assert hosts == {OURS}
    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.aaa"}
    assert f"{EVIL} is not asked" in of(lab, seen.TableFailed)[0].error
    assert [one.table.name for one in of(lab, seen.JobEnded)] == ["shop.bbb"]
    service.stop()


@pytest.mark.parametrize("name", ["write.metadata.path", "write.data.path"])
def test_nothing_is_written_to_another_host(lab, hosts, name):
    change(lab, lab.catalog.load_table("shop.aaa"), with_place(name))
    service = lab.service()
    service.start()
    for _ in range(6):
        service.step(0)

    assert hosts == {OURS}
    assert "committed" not in {one.reason for one in of(lab, seen.JobEnded) if one.table.name == "shop.aaa"}
    service.stop()


def test_what_the_catalog_named_is_known_where_no_catalog_is_asked(lab, hosts):
    table = lab.catalog.load_table("shop.aaa")
    elsewhere = RetryingFileIO(plain_properties(table.io))

    assert elsewhere.new_input(table.metadata_location).exists()
    with pytest.raises(ForeignHostError):
        elsewhere.new_input(f"{EVIL}/a")


@pytest.mark.parametrize(
    ("properties", "host", "is_asked"),
    [
        ({"hdfs.host": "ours"}, "hdfs://ours", True),
        ({"hdfs.host": "ours"}, "hdfs://ours:8020", True),
        ({"hdfs.host": "ours"}, "viewfs://ours", True),
        ({"hdfs.host": "ours"}, "hdfs://ours:22", False),
        ({"hdfs.host": "ours", "hdfs.port": "9000"}, "hdfs://ours:9000", True),
        ({"hdfs.host": "ours", "hdfs.port": "9000"}, "hdfs://ours:22", False),
        ({"warehouse": "hdfs://Ours:8020/w"}, "hdfs://me@ours", True),
        ({"warehouse": "hdfs://ours/w"}, "hdfs://OURS:8020", True),
        ({"warehouse": "hdfs://ours:9000/w"}, "hdfs://ours:9000", True),
        ({"warehouse": "hdfs:///w"}, "hdfs://evil", False),
        ({"warehouse": "s3://evil/w"}, "hdfs://evil", False),
        ({}, "hdfs://evil", False),
        ({}, "viewfs://evil", False),
        ({}, "hdfs://", True),
    ],
)
def test_the_operators_hosts_are_asked(hosts, properties, host, is_asked):
    files = RetryingFileIO(properties)
    location = f"{host}/w/a.avro"

    if is_asked:
        files.new_input(location)
    else:
        for ask in (files.new_input, files.new_output, files.delete):
            with pytest.raises(ForeignHostError, match=f"{host} is not asked"):
                ask(location)
        assert hosts == set()


def test_so_many_hosts_are_remembered_and_no_more():
    files = RetryingFileIO({})
    for number in range(2 * MOST):
        files.may_ask(f"hdfs://n{number}/w")
    files.may_ask("s3://lake/w")

    assert files.name_nodes == tuple(f"hdfs://n{number}" for number in range(MOST, 2 * MOST))
