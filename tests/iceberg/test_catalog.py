"""What a catalog and a table's files may answer: only the catalog's own word makes a table gone."""

import gzip
import json
import threading
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from isotherm.contract.paths import normalised
from isotherm.core.model.refusals import Reason
from isotherm.core.observations import JobEnded, TrySoon
from isotherm.iceberg.catalog import LOOK_LIMIT_S, IcebergCatalog, connect
from isotherm.iceberg.errors import translated
from isotherm.iceberg.identify_tables import MOST_HANGING, SILENT_AT_ONCE
from isotherm.iceberg.threads import Beside
from isotherm.runtime.config import CatalogConfig
from isotherm.service.catalog_lists import CatalogLists
from isotherm.service.ports import Fenced, Refused, TableMissing, Unavailable, Unreadable
from isotherm.store import Ledger
from support import dotted
from support.faults import FaultyCatalog
from support.in_process import AtOnce
from support.lab import of, uuid_of
from support.servers import http_server

CONFIG = {"defaults": {}, "overrides": {}}


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


def rest_error(code):
    return {"error": {"message": "no", "type": "SomeException", "code": code}}


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


def tree(tables, refused=(), dropped=(), *, nested=True):
    """A REST catalog of some tables, by namespace; namespaces have dots between their parts."""
    spaces = {
        ".".join(parts[:depth])
        for parts in (name.split(".") for name in [*tables, *refused, *dropped])
        for depth in range(1, len(parts) + 1)
    }

    def answer(_, path):
        if path == "/v1/config":
            return 200, CONFIG
        url = urlsplit(path)
        asked = parse_qs(url.query).get("parent", [""])[0]
        if url.path == "/v1/namespaces":
            parent = asked.replace("\x1f", ".")
            if parent and not nested:
                return 400, rest_error(400)
            below = [one.split(".") for one in sorted(spaces) if one.rpartition(".")[0] == parent]
            return 200, {"namespaces": below}
        space = unquote(url.path.split("/")[3]).replace("\x1f", ".")
        if space in refused:
            return 403, rest_error(403)
        if space in dropped:
            return 404, {"error": {"message": "gone", "type": "NoSuchNamespaceException", "code": 404}}
        listed = [{"namespace": space.split("."), "name": name} for name in tables.get(space, ())]
        return 200, {"identifiers": listed}

    return http_server(answer)


def listing(url):
    return IcebergCatalog(connect(CatalogConfig(properties={"type": "rest", "uri": url}))).names()


def test_tables_are_found_however_deep_their_namespace_is():
    with tree({"a": ["t"], "a.b.c": ["u", "v"], "d.e": ["w"]}) as url:
        found = listing(url)

    assert (found.names, found.unlisted) == (["a.b.c.u", "a.b.c.v", "a.t", "d.e.w"], {})


@pytest.mark.parametrize("top", ["Nord Süd", "it's", "a&b", "a+b", "50%", "日本"])
def test_tables_are_found_below_a_namespace_whose_name_is_quoted(top):
    with tree({top: ["t"], f"{top}.{top}.c": ["u"]}) as url:
        found = listing(url)

    assert (set(found.names), found.unlisted) == ({f"{top}.t", f"{top}.{top}.c.u"}, {})


def test_a_namespace_that_refuses_or_vanishes_hides_no_other():
    with tree({"a": ["t"], "z": ["u"]}, refused=["b", "a.secret"], dropped=["c"]) as url:
        found = listing(url)

    assert found.names == ["a.t", "z.u"]
    assert sorted(found.unlisted) == ["a.secret", "b", "c"]
    assert all("ForbiddenError" in found.unlisted[name] for name in ("a.secret", "b"))


def test_a_namespace_that_is_listed_and_not_there_may_have_tables():
    tables, dropped = {"a": ["t"], "c": ["copy"], "d.e": ["copy"]}, ["c", "d.e"]
    with tree(tables, dropped=dropped) as url:
        catalog = IcebergCatalog(connect(CatalogConfig(properties={"type": "rest", "uri": url})))
        found = catalog.names()
        dropped.clear()
        later = catalog.names()

    why = "the catalog lists namespace c, and says that it does not have it"
    assert (found.names, found.unlisted["c"], sorted(found.silent)) == (["a.t"], why, ["c", "d.e"])
    assert (later.names, later.unlisted) == (["a.t", "c.copy", "d.e.copy"], {})


@pytest.mark.parametrize("name", ["c", "d.e"])
def test_a_namespace_that_was_dropped_since_it_was_listed_hides_nothing(lab, name):
    for one in ("a.t", "d.t", f"{name}.t"):
        lab.create(one)

    class Dropped(FaultyCatalog):
        def list_tables(self, namespace):
            if namespace == tuple(name.split(".")):
                self.catalog.drop_table(f"{name}.t")
                self.catalog.drop_namespace(name)
            return self.catalog.list_tables(namespace)

    found = IcebergCatalog(Dropped(lab.catalog)).names()

    assert (found.names, found.unlisted, found.silent) == (["a.t", "d.t"], {}, [])


def test_a_catalog_without_nested_namespaces_is_listed_all_the_same():
    with tree({"a": ["t"], "z": ["u"]}, nested=False) as url:
        assert (listing(url).names, listing(url).unlisted) == (["a.t", "z.u"], {})


@pytest.mark.parametrize(("status", "body"), [(503, ""), (404, ""), (404, rest_error(404))])
def test_a_catalog_that_is_away_as_a_whole_is_not_an_empty_one(status, body):
    with (
        http_server(lambda _, path: (200, CONFIG) if path == "/v1/config" else (status, body)) as url,
        pytest.raises(Unavailable, match="the list of namespaces"),
    ):
        listing(url)


def test_namespaces_below_others_are_found_in_an_sql_catalog(lab):
    for name in ("a.t", "a.b.t", "ab.t"):
        lab.create(name)

    assert IcebergCatalog(lab.catalog).names().names == ["a.b.t", "a.t", "ab.t"]


def test_a_namespace_that_is_not_shown_is_reported_once(lab):
    with tree({"shop": []}, refused=["secret"]) as url:
        catalog = IcebergCatalog(connect(CatalogConfig(properties={"type": "rest", "uri": url})))
        lists = CatalogLists(1e-9, catalog, Ledger(None), lab.seen.append, lab.now_ms, lab.monotonic_s)
        for _ in range(2):
            assert lists.take().names == []

    (told,) = (one for one in lab.seen if isinstance(one, TrySoon))
    assert told.what == "the tables of namespace secret"


@pytest.fixture
def listed(lab):
    """A catalog with a table in the namespace `eu.prod`, which is one level, and what it lists."""
    lab.create(dotted.HELD)
    others = {key: value for key, value in lab.properties.items() if key != "type"}
    real = connect(CatalogConfig(properties={**others, "py-catalog-impl": "support.dotted.Dotted"}))
    catalog = IcebergCatalog(real, threads=AtOnce())
    return catalog, catalog.names().names


def test_a_table_in_a_namespace_with_a_dot_is_looked_at(lab, listed):
    catalog, names = listed
    catalog.start_looking(names)
    looked = catalog.looked()

    assert dotted.NAME in names
    assert looked.found[dotted.NAME].uuid == uuid_of(lab.catalog.load_table(dotted.HELD))
    assert catalog.load(dotted.NAME).table.uuid == looked.found[dotted.NAME].uuid
    assert looked.gone == []


def test_one_list_says_of_all_tables_of_a_namespace_that_are_not_found_whether_they_are_listed(listed):
    catalog, names = listed
    catalog.catalog.has_table = False
    catalog.catalog.lists = 0
    catalog.start_looking([*names, "eu.prod.dropped", "eu.gone.a", "eu.gone.b"])
    looked = catalog.looked()

    # By two parts of its name, a namespace is another one.
    assert set(looked.missing) == set(names)
    assert set(looked.gone) == {"eu.prod.dropped", "eu.gone.a", "eu.gone.b"}
    assert catalog.catalog.lists <= 1 + 2


class Hanging:
    """Looks in real threads, by a clock that is set: some names hang until the test is over."""

    def __init__(self, lab, names):
        self.now_s, self.asked, self.over, self.names = 0.0, SimpleQueue(), Event(), names
        self.hung, self.ended = [], SimpleQueue()
        self.catalog = IcebergCatalog(lab.catalog, threads=self)
        self.real, self.catalog.lies = self.catalog.lies, self.lies

    def beside(self, limit_s):
        return Beside(limit_s, lambda: self.now_s)

    def lies(self, name):
        if name in self.names:
            self.asked.put(name)
            self.over.wait(60)
            self.ended.put(name)
        return self.real(name)

    def let_go(self):
        """Have what hangs end."""
        self.over.set()
        for name in self.hung:
            assert self.ended.get(timeout=30) in self.names, name
        while self.catalog.hanging() and any(
            one.name == "isotherm-beside-looking" for one in threading.enumerate()
        ):
            pass

    def looked_again(self, listed):
        """What a look comes to in which no name hangs that was not given up before."""
        self.catalog.start_looking(listed)
        self.catalog.wait(30)
        return self.catalog.looked()

    def looked(self, listed):
        """What a look comes to, when each name that hangs has had its time."""
        self.catalog.start_looking(listed)
        for _ in self.names:
            self.hung.append(self.asked.get(timeout=30))
            self.now_s += LOOK_LIMIT_S + 1
            if (looked := self.catalog.looked()) is not None:
                return looked
        self.catalog.wait(30)
        return self.catalog.looked()


@pytest.fixture
def hanging(lab):
    for number in range(9):
        lab.create(f"shop.t{number}")
    made = []

    def make(*names):
        made.append(Hanging(lab, names))
        return made[-1]

    yield make
    for one in made:
        one.over.set()


def test_a_name_that_hangs_is_silent_alone(hanging):
    names = [f"shop.t{number}" for number in range(9)]
    looked = hanging("shop.t0", "shop.t4").looked([*names, "shop.dropped"])

    assert set(looked.silent) == {"shop.t0", "shop.t4"}
    assert set(looked.found) == {*names} - {"shop.t0", "shop.t4"}
    assert (looked.gone, looked.unasked) == (["shop.dropped"], [])


def test_where_name_after_name_hangs_the_others_are_not_asked_for(hanging):
    names = [f"shop.t{number}" for number in range(9)]
    looked = hanging(*names[:SILENT_AT_ONCE]).looked(names)

    assert set(looked.silent) == set(names[:SILENT_AT_ONCE])
    assert set(looked.unasked) == set(names[SILENT_AT_ONCE:])


def test_a_name_that_hangs_for_ever_costs_one_thread_however_often_it_is_looked_at(hanging):
    names = [f"shop.t{number}" for number in range(3)]
    lab = hanging("shop.t0")
    before = lab.catalog.hanging()
    first = lab.looked(names)
    again = [lab.looked_again(names) for _ in range(5)]

    assert [set(looked.silent) for looked in (first, *again)] == [{"shop.t0"}] * 6
    assert [set(looked.found) for looked in (first, *again)] == [{"shop.t1", "shop.t2"}] * 6
    assert lab.asked.empty()
    assert lab.catalog.hanging() - before == 1
    lab.let_go()
    assert lab.catalog.hanging() == before
    assert set(lab.looked_again(names).found) == set(names)


def test_where_many_names_hang_for_ever_no_other_is_asked_for(hanging):
    names = [f"shop.t{number}" for number in range(9)]
    lab = hanging(*names[:4])
    lab.looked(names)
    lab.names = names[4:MOST_HANGING]
    lab.looked(names)
    looked = lab.looked_again(names)

    assert set(looked.silent) == set(names[:MOST_HANGING])
    assert list(looked.unasked) == names[MOST_HANGING:]
    assert lab.asked.empty()
