"""PyIceberg's SQL catalog, without what it does again for each question and each commit.

A daemon in a test asks for tables and lists at each step. SQLAlchemy makes each statement again, each question parses
the table's metadata again, and each update copies all of it several times. That took half of the CPU of such a test.
Here the four questions are plain SQL, text that was parsed just before is not parsed again, and a copy shares what
nobody changes. What the answers mean, and whatever changes the catalog, is still PyIceberg's own.
`test_quick_catalog.py` holds both catalogs against each other.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table.metadata import (
    TableMetadata,
    TableMetadataUtil,
    TableMetadataV1,
    TableMetadataV2,
    TableMetadataV3,
)

ROWS = """
SELECT table_namespace, table_name, metadata_location FROM iceberg_tables
WHERE catalog_name = ? AND table_namespace = ?"""
OF_NAME = " AND table_name = ?"
NO_VIEWS = " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
ANY = """
SELECT 1 FROM iceberg_tables
WHERE catalog_name = ?1 AND (table_namespace = ?2 OR table_namespace LIKE ?3 ESCAPE '!')
UNION ALL SELECT 1 FROM iceberg_namespace_properties
WHERE catalog_name = ?1 AND (namespace = ?2 OR namespace LIKE ?3 ESCAPE '!') LIMIT 1
"""
NAMESPACES = """
SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ?1
UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?1
"""


def load_table(self: SqlCatalog, identifier: Any) -> Any:
    namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
    name = Catalog.table_name_from(identifier)
    rows = _rows(self, ROWS + OF_NAME + _no_views(self), self.name, namespace, name)
    if not rows:
        raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
    # As they are stored: a database may find names in any case.
    names = ("table_namespace", "table_name", "metadata_location")
    row = SimpleNamespace(**dict(zip(names, rows[0], strict=True)))
    return self._convert_orm_to_iceberg(row)  # type: ignore[arg-type]


def namespace_exists(self: SqlCatalog, identifier: Any) -> bool:
    namespace = Catalog.namespace_to_string(Catalog.identifier_to_tuple(identifier), NoSuchNamespaceError)
    below = namespace.replace("!", "!!").replace("_", "!_").replace("%", "!%") + ".%"
    return bool(_rows(self, ANY, self.name, namespace, below))


def list_tables(self: SqlCatalog, namespace: Any) -> list[Any]:
    if namespace and not self.namespace_exists(namespace):
        raise NoSuchNamespaceError(f"Namespace does not exist: {namespace}")
    rows = _rows(self, ROWS + _no_views(self), self.name, Catalog.namespace_to_string(namespace))
    return [(*Catalog.identifier_to_tuple(one), name) for one, name, _ in rows]


def list_namespaces(self: SqlCatalog, namespace: Any = ()) -> list[Any]:
    if namespace and not self.namespace_exists(namespace):
        raise NoSuchNamespaceError(f"Namespace does not exist: {namespace}")
    above = Catalog.identifier_to_tuple(namespace)
    level = len(above) + 1
    found = (Catalog.identifier_to_tuple(one) for one in _namespaces(self))
    return list({one[:level] for one in found if len(one) >= level and one[: level - 1] == above})


def _namespaces(catalog: SqlCatalog) -> list[str]:
    return [one for (one,) in _rows(catalog, NAMESPACES, catalog.name)]


def _no_views(catalog: SqlCatalog) -> str:
    return NO_VIEWS if catalog._schema_version == "v1" else ""  # noqa: SLF001 (PyIceberg's own)


def _rows(catalog: SqlCatalog, sql: str, *values: str) -> Sequence[Any]:
    try:
        with closing(catalog.engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
            return cursor.execute(sql, values).fetchall()
    except sqlite3.Error:
        # The daemon knows such an error by SQLAlchemy's name for it.
        with catalog.engine.connect() as connection:
            return connection.exec_driver_sql(sql, values).all()


PARSE = TableMetadataUtil.parse_raw
SHORT = 500_000
"""So many characters of metadata are worth keeping; tests of longer ones look at memory."""
parse_again = lru_cache(maxsize=32)(PARSE)


def parse_raw(data: str) -> TableMetadata:
    return parse_again(data) if len(data) <= SHORT else PARSE(data)


QUESTIONS = (load_table, namespace_exists, list_tables, list_namespaces)
OF_PYICEBERG = {one.__name__: getattr(SqlCatalog, one.__name__) for one in QUESTIONS}


def make_catalogs_quick() -> None:
    """In this process."""
    for question in QUESTIONS:
        setattr(SqlCatalog, question.__name__, question)
    TableMetadataUtil.parse_raw = staticmethod(parse_raw)
    for metadata in (TableMetadataV1, TableMetadataV2, TableMetadataV3):
        # An update replaces fields and lists, and changes none.
        metadata.__deepcopy__ = lambda self, _=None: self.__copy__()
