"""What a catalog and a table's files may answer: only the catalog's own word makes a table gone."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from isotherm.contract.paths import normalised
from isotherm.core.model.refusals import Reason
from isotherm.core.observations import JobEnded, TrySoon
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.iceberg.errors import translated
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import Fenced, Refused, TableMissing, Unavailable, Unreadable
from support.lab import of
from support.rest_answers import CONFIG, rest_error
from support.servers import http_server


def metadata_path(table):
    return Path(normalised(table.refresh().metadata_location))


def edited(**changes):
    def damage(path):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return damage


DAMAGES = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
    "a later version": edited(**{"format-version": 4}),
    "no version": edited(**{"format-version": None}),
    "another document": lambda path: path.write_text("<html>"),
    "nested too deeply": lambda path: path.write_text('{"a":' * 100_000),
    "not there": lambda path: path.unlink(),
    "no snapshots to speak of": edited(snapshots=7),
    "packed in no way that is known": lambda path: path.write_bytes(b"\x1f\x8b" + b"x" * 1000),
    "packed, and cut off": lambda path: path.write_bytes(gzip.compress(path.read_bytes())[:-100]),
    "packed, and overwritten": lambda path: path.write_bytes(gzip.compress(b"")[:10] + b"x" * 1000),
    "packed, with a wrong sum": lambda path: path.write_bytes(
        gzip.compress(path.read_bytes())[:-8] + bytes(8)
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_table_whose_metadata_makes_no_sense_is_unreadable_and_nothing_of_it_is_forgotten(lab, damage):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    uuid = str(table.metadata.table_uuid)
    known = list(service.fold.partitions(uuid))
    damage(metadata_path(table))
    catalog = IcebergCatalog(lab.catalog)
    with pytest.raises(Unreadable, match=r"table shop\.orders cannot be read"):
        catalog.load("shop.orders")
    with pytest.raises(Unreadable):
        service.follower.confirm("shop.orders")

    assert known
    assert list(service.fold.partitions(uuid)) == known
    service.stop()


def test_a_damaged_manifest_is_unreadable(lab):
    table = lab.create()
    lab.append(table, 1)
    (path,) = (normalised(one.manifest_path) for one in table.current_snapshot().manifests(table.io))
    Path(path).write_bytes(b"Obj\x01" + bytes(100))
    catalog = IcebergCatalog(lab.catalog)
    with pytest.raises(Unreadable, match="the manifests of"):
        catalog.scan(catalog.load("shop.orders"))


def test_manifests_that_do_not_fit_the_spec_of_their_table_are_damaged_and_not_away(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    path = metadata_path(table)
    metadata = json.loads(path.read_text())
    metadata["partition-specs"][0]["fields"][0]["transform"] = "identity"
    path.write_text(json.dumps(metadata))
    service = lab.settled()

    failed = [one for one in of(lab, JobEnded) if one.reason == Reason.CORRUPT_FILE]
    assert failed
    assert all("do not fit the partition spec 0" in one.why for one in failed)
    assert of(lab, TrySoon) == []
    service.stop()


@pytest.mark.parametrize("name", ["shop.orders", "nowhere.orders", "orders", "", ".", "shop..orders"])
def test_a_table_that_the_catalog_does_not_have_is_missing(lab, name):
    lab.catalog.create_namespace("shop")
    with pytest.raises(TableMissing):
        IcebergCatalog(lab.catalog).load(name)


NO_SUCH_TABLE = {"error": {"message": "Table does not exist", "type": "NoSuchTableException", "code": 404}}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, NO_SUCH_TABLE, TableMissing),
        (404, "<html>default backend - 404</html>", Unavailable),
        (404, "", Unavailable),
        (404, {"detail": "Not Found"}, Unavailable),
        (403, rest_error(403), Refused),
        (501, rest_error(501), Unavailable),
        (503, "", Unavailable),
        (200, "<html>Please sign in</html>", Unreadable),
        (200, {"metadata-location": "s3://a/b", "metadata": {"format-version": 4}}, Unreadable),
    ],
)
def test_only_the_catalogs_own_word_makes_a_table_missing(status, body, expected):
    with http_server(lambda _, path: (200, CONFIG) if path == "/v1/config" else (status, body)) as url:
        catalog = IcebergCatalog(connect(CatalogConfig(properties={"type": "rest", "uri": url})))
        with pytest.raises((TableMissing, Unavailable)) as raised:
            catalog.load("shop.orders")

    assert type(raised.value) is expected


@pytest.mark.parametrize("filling", ["\n", "x\n", " ", " [", "//", "Bearer "])
def test_of_an_error_that_repeats_what_an_owner_wrote_no_more_is_looked_at_than_is_told(filling):
    """Otherwise nothing else runs for hours: blanks before a bracket were sought again from each of them."""
    error = ValueError("Could not match bucket[" + filling * 4_000_000 + "x")
    tracemalloc.start()
    with pytest.raises(Unreadable) as raised, translated("table shop.orders"):
        raise error
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert str(raised.value).startswith(
        "table shop.orders cannot be read: ValueError: Could not match bucket["
    )
    assert len(str(raised.value)) < 1000
    assert most < 1_000_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no such file", "no such file"),
        ("\n first\nsecond", "first"),
        ("it is wrong   [type=missing, input_value={'a': 1}]", "it is wrong"),
        ("1 validation error for Model\n2.refs.main\n  Field required [type=missing, input_value=7]", "2.refs.main: Field required"),
        ("no answer of https://me:secret@host/", "no answer of https://***@host/"),
        ("x" * 501, "x" * 500 + "…"),
        ("", ""),
    ],
)  # fmt: skip
def test_an_error_is_told_in_a_line_without_what_it_repeats(text, told):
    with pytest.raises(Unreadable) as raised, translated("it"):
        raise ValueError(text)

    assert str(raised.value) == f"it cannot be read: ValueError: {told}"


class ThriftError(Exception):
    """Clients have families of their own: nothing in common with ours but `Exception`."""


@pytest.mark.parametrize(
    "error", [ThriftError("TSocket read 0 bytes"), NotImplementedError("501"), MemoryError()]
)
def test_an_error_of_a_family_that_nobody_knows_is_unavailable(error):
    with pytest.raises(Unavailable, match="the list of tables") as raised, translated("the list of tables"):
        raise error

    assert not isinstance(raised.value, Unreadable)


@pytest.mark.parametrize("error", [Fenced("a newer one"), Unavailable("the broker"), KeyboardInterrupt()])
def test_what_our_own_callbacks_raise_goes_through(error):
    with pytest.raises(type(error)) as raised, translated("table shop.orders"):
        raise error

    assert raised.value is error
