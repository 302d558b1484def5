"""A catalog whose one namespace has a dot in its only level, as REST catalogs allow."""

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

NAMESPACE, NAME = ("eu.prod",), "eu%2Eprod.t"
HELD = "shop.orders"
"""What the catalog below has it under."""


class Dotted(SqlCatalog):
    has_table = True
    """Whether a table is found under the name that is listed."""
    lists = 0

    def list_namespaces(self, namespace=()):
        return [] if namespace else [NAMESPACE]

    def list_tables(self, namespace):
        self.lists += 1
        if tuple(namespace) != NAMESPACE:
            raise NoSuchNamespaceError(f"NoSuchNamespaceException: {namespace}")
        return [(*NAMESPACE, f"{letter}") for letter in "stu"]

    def load_table(self, identifier):
        if identifier != (*NAMESPACE, "t") or not self.has_table:
            raise NoSuchTableError(f"NoSuchTableException: {identifier}")
        return super().load_table(HELD)
