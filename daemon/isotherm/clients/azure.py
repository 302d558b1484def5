"""Locations of Azure as Spark writes them: `abfss://container@account.dfs.core.windows.net/path`.

PyArrow wants `container/path`, and one account for all, which is the operator's (`adls.account-name`). PyIceberg hands it
everything between the slashes as the container. So the container is taken out here. A table's owner chooses its
locations: one in another account is refused before anybody is asked, because the operator's file would be read in its
place.
"""

from collections.abc import Mapping
from typing import Any

from pyiceberg.io import ADLS_ACCOUNT_NAME, ADLS_BLOB_STORAGE_AUTHORITY, ADLS_DFS_STORAGE_AUTHORITY

SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
AUTHORITIES = {
    ADLS_DFS_STORAGE_AUTHORITY: ".dfs.core.windows.net",
    ADLS_BLOB_STORAGE_AUTHORITY: ".blob.core.windows.net",
}
"""What follows an account in its two hosts, unless the operator says otherwise. Without a dot before it, it is the host."""


class ForeignAccountError(ValueError):
    """A location lies in an account of Azure that is not the operator's: it is not asked."""


def in_container(authority: str, path: str, properties: Mapping[str, Any]) -> str:
    """A path as PyArrow wants it.

    Args:
        authority: of the location, as `container@account.dfs.core.windows.net`; or a container alone.
        path: as PyIceberg has it: the authority and the path behind it.
        properties: the operator's.

    Raises:
        ForeignAccountError: the location lies in another account.
    """
    container, is_whole, host = authority.partition("@")
    if not is_whole:
        return path
    account = str(properties.get(ADLS_ACCOUNT_NAME) or "")
    ends = [str(properties.get(name) or usual) for name, usual in AUTHORITIES.items()]
    hosts = [f"{account}{end}" if end.startswith(".") else end for end in ends]
    if not account or host.lower() not in {one.lower() for one in hosts}:
        says = f"says {account!r}" if account else "is not said"
        raise ForeignAccountError(
            f"{host} is not asked: a location names this host of Azure, and {ADLS_ACCOUNT_NAME} in catalog.properties "
            f"{says}; say the account there (and {ADLS_DFS_STORAGE_AUTHORITY} where it is in no public cloud), or leave "
            "the table to a daemon of that account"
        )
    return container + path.removeprefix(authority)
