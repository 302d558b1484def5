"""PyIceberg's catalogs, each request of which ends: PyIceberg sets no time-out on a REST catalog.

It also quotes a namespace in a query, which requests quotes again. So a server would know nothing below a namespace
whose name has a space or a letter beyond ASCII.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog import Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.typedef import Identifier
from requests import Session

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 30.0
"""Between two bytes. A commit that ran into it may have landed; the writer looks for its own token."""


def open_catalog(name: str, properties: Mapping[str, str], answer_s: float = ANSWER_TIMEOUT_S) -> Catalog:
    """A client of the catalog, for one thread."""
    if "py-catalog-impl" in properties:
        return load_catalog(name, **properties)
    kind = properties.get("type") or infer_catalog_type(name, dict(properties))
    if kind is not None and CatalogType(kind) is CatalogType.REST:
        return _Rest(name, answer_s, **properties)
    return load_catalog(name, **properties)


class _InQuery(tuple[str, ...]):
    """A namespace in the query of an address, which requests quotes by itself."""

    __slots__ = ()


class _Rest(RestCatalog):
    """A REST catalog that cannot be waited for for ever, and that quotes each name once."""

    def __init__(self, name: str, answer_s: float, **properties: Any) -> None:
        self._answer_s = answer_s
        super().__init__(name, **properties)

    def _config_headers(self, session: Session) -> None:
        """Prepare a new session; called before its first request, which may be the one for a token."""
        super()._config_headers(session)
        session.send = partial(_send, session.send, self._answer_s)  # type: ignore[method-assign]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Return the namespaces right below one, or those at the top."""
        below: list[Identifier] = super().list_namespaces(_InQuery(self.identifier_to_tuple(namespace)))
        return below

    def _encode_namespace_path(self, namespace: Identifier) -> str:
        if isinstance(namespace, _InQuery):
            return self._namespace_separator.join(namespace)
        return super()._encode_namespace_path(namespace)


def _send(send: Any, answer_s: float, request: Any, **kwargs: Any) -> Any:
    kwargs["timeout"] = kwargs.get("timeout") or (CONNECT_TIMEOUT_S, answer_s)
    return send(request, **kwargs)
