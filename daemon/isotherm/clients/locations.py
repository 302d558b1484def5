"""Where a table wants its data files. Its properties choose no code, so its own provider of locations is none of these."""

from collections.abc import Mapping

from pyiceberg.table import TableProperties
from pyiceberg.table.locations import LocationProvider, ObjectStoreLocationProvider, SimpleLocationProvider

from isotherm.contract.properties import says

IN_FOLDERS = TableProperties.WRITE_OBJECT_STORE_PARTITIONED_PATHS


def location_provider(location: str, properties: Mapping[str, str]) -> LocationProvider:
    """The provider of locations of a table, by its own location and properties."""
    if not is_scattered(properties):
        return SimpleLocationProvider(location, dict(properties))
    return ObjectStoreLocationProvider(location, {**properties, IN_FOLDERS: str(has_folders(properties))})


def is_scattered(properties: Mapping[str, str]) -> bool:
    """Whether files lie under names that are spread evenly, for stores that divide their load by them."""
    return says(properties, TableProperties.OBJECT_STORE_ENABLED, default=False)


def has_folders(properties: Mapping[str, str]) -> bool:
    """Whether scattered files still lie in folders named after their partitions."""
    return says(properties, IN_FOLDERS, default=True)
