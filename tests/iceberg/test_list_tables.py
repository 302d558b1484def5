"""The list of tables: however deep their namespace is, and whatever a namespace refuses."""

from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from isotherm.contract.identity import levels_of, name_from
from isotherm.core.observations import TrySoon
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import Unavailable
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.store import Ledger
from support.faults import FaultyCatalog
from support.rest_answers import CONFIG, rest_error
from support.servers import http_server


def tree(tables, refused=(), dropped=(), *, nested=True):
    """A REST catalog of some tables, by the name of their namespace."""
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
            parent = name_from(asked.split("\x1f"))
            if parent and not nested:
                return 400, rest_error(400)
            below = [levels_of(one) for one in sorted(spaces) if one.rpartition(".")[0] == parent]
            return 200, {"namespaces": below}
        space = name_from(unquote(url.path.split("/")[3]).split("\x1f"))
        if space in refused:
            return 403, rest_error(403)
        if space in dropped:
            return 404, {"error": {"message": "gone", "type": "NoSuchNamespaceException", "code": 404}}
        listed = [{"namespace": levels_of(space), "name": name} for name in tables.get(space, ())]
        return 200, {"identifiers": listed}

    return http_server(answer)


def listing(url):
    return IcebergCatalog(connect(CatalogConfig(properties={"type": "rest", "uri": url}))).names()


def test_tables_are_found_however_deep_their_namespace_is():
    with tree({"a": ["t"], "a.b.c": ["u", "v"], "d.e": ["w"]}) as url:
        found = listing(url)

    assert (found.names, found.unlisted) == (["a.b.c.u", "a.b.c.v", "a.t", "d.e.w"], {})


def test_a_namespace_with_a_dot_in_its_level_is_another_than_one_with_two_levels():
    with tree({"a.b": ["t"], "a": ["b.t"], "c%2Ed": ["t"]}, refused=["a%2Eb", "c.d"]) as url:
        found = listing(url)

    assert found.names == ["a.b%2Et", "a.b.t", "c%2Ed.t"]
    assert found.unlisted.keys() == {"a%2Eb", "c.d"}
    hidden = [name for name in ("a%2Eb.t", "a.b.t", "c.d.t", "c%2Ed.t") if found.hides(name)]
    assert hidden == ["a%2Eb.t", "c.d.t"]


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
