"""A listing of a REST catalog ends, whatever tokens for a next page come."""

from urllib.parse import parse_qs, urlsplit

import pytest
from pyiceberg.exceptions import ServerError

from isotherm.clients.catalog import open_catalog
from isotherm.clients.pages import MOST_PAGES, Pages
from support.rest_answers import rest
from support.servers import http_server

PAGE = "http://127.0.0.1/v1/namespaces?pageToken="


def listed(answer, at_most):
    """The tables of a namespace, from a server whose pages are `answer(token)`: names, and the next token."""
    asked = []

    def respond(_, path):
        if "config" in path:
            return 200, {"defaults": {}, "overrides": {}}
        if len(asked) > at_most:
            return 404, {}
        asked.append(path)
        names, after = answer(parse_qs(urlsplit(path).query).get("pageToken", [""])[0])
        tables = [{"namespace": ["shop"], "name": name} for name in names]
        return 200, {"identifiers": tables, "next-page-token": after}

    with http_server(respond) as url:
        catalog = open_catalog("lake", rest(url).properties, 5)
        return [[name for _, name in catalog.list_tables("shop")] for _ in range(2)]


def test_a_list_of_several_pages_is_read_to_its_end_as_often_as_it_is_asked_for():
    pages = {"": (["a"], "1"), "1": (["b"], "2"), "2": (["b"], None)}

    assert listed(pages.get, 6) == [["a", "b", "b"]] * 2


def test_a_server_may_have_the_same_token_for_all_pages():
    left = [(["a"], "x"), (["b"], "x"), (["c"], None)] * 2

    assert listed(lambda _: left.pop(0), 6) == [["a", "b", "c"]] * 2


def test_a_list_whose_page_comes_again_is_given_up():
    """A server that does not look at the token. What was listed so far is no list."""
    with pytest.raises(ServerError, match="the same page of a list again and again"):
        listed(lambda _: (["a", "b"], "x"), 5)


def test_the_same_page_for_the_same_token_comes_once():
    pages = Pages()
    for url, answer in ((PAGE, b"a"), (PAGE + "1", b"a"), (PAGE + "2", b"a"), (PAGE + "1", b"b")):
        pages.check(url, answer)
    with pytest.raises(ServerError):
        pages.check(PAGE + "1", b"a")
    pages.check(PAGE, b"a")
    pages.check(PAGE + "1", b"a")


def test_a_list_of_very_many_pages_is_given_up():
    pages = Pages()
    for number in range(MOST_PAGES):
        pages.check(f"{PAGE}{number + 1}", b"")
    with pytest.raises(ServerError, match="more than 10,000 pages"):
        pages.check(f"{PAGE}0", b"")
