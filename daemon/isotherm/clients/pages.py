"""Listings of a REST catalog, which end.

PyIceberg asks for the next page for as long as there is a token for one, and keeps all pages. A server that does not look
at the token sends the first page again and again, until there is no memory left.
"""

from threading import local
from urllib.parse import parse_qs, urlsplit

from pyiceberg.exceptions import ServerError

MOST_PAGES = 10_000
"""Of one listing: a million names, where a page has as few as a hundred."""


class Pages(local):
    """The pages of the listing that this thread reads; a listing begins with a request that has no token."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()

    def check(self, url: str, answer: bytes) -> None:
        """Take in a page.

        Raises:
            ServerError: it has come before, for the same token, or there are too many. What was listed so far is no
                list: what is not on it might be taken for gone.
        """
        token = parse_qs(urlsplit(url).query).get("pageToken", [""])[0]
        if not token:
            self._seen.clear()
            return
        # The token alone says nothing: a server may have one for all pages, and know by itself where it was.
        page = (token, hash(answer))
        if page in self._seen:
            raise ServerError("the catalog sends the same page of a list again and again")
        if len(self._seen) >= MOST_PAGES:
            raise ServerError(f"the catalog's list has more than {MOST_PAGES:,} pages")
        self._seen.add(page)
