"""Locations of files as text: one spelling for one file, and which texts mean what they say.

Spark writes `file:/x` where PyIceberg writes `file:///x`, and people write `/x` or `s3a://`. Whoever compares
locations compares them normalised. Whoever deletes asks first whether a location is plain: PyArrow cuts a location at
`?` and `#`, so that `orders/a.parquet#b` would delete `orders/a.parquet`. And whoever deletes one compares it with what
each location that is not plain may be taken for, because Hadoop reads `data//a.parquet` as `data/a.parquet`.
"""

import re
from collections.abc import Collection, Mapping

_SAME_SCHEME = {
    "s3a": "s3",
    "s3n": "s3",
    "oss": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
}
"""Schemes for which PyArrow has one client: one store under several names."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?://)?")
_BEGINNING = re.compile(r"(?!file://[^/])(?:[a-z][a-z0-9+.-]*:)?/", re.ASCII | re.IGNORECASE)
"""Of a location that depends on nothing else. PyIceberg seeks one with anything but a scheme of RFC 3986 in the folder in
which a program was started, and so it does `file:a` and `file://a/b`."""


def normalised(location: str) -> str:
    """The one spelling of a location, by which it is compared with others."""
    scheme, separator, rest = location.partition(":")
    if not separator or "/" in scheme:
        return location
    scheme = scheme.lower()
    if scheme == "file":
        return "/" + rest.removeprefix("//localhost/").lstrip("/")
    if scheme == "hdfs":
        # The name node may be left out, or have a port.
        return "hdfs:///" + (rest[2:].partition("/")[2] if rest.startswith("//") else rest.lstrip("/"))
    same = _SAME_SCHEME.get(scheme, scheme)
    if same == "abfs":
        # One account of Azure's has a host for each of its two protocols.
        host, slash, path = rest.removeprefix("//").partition("/")
        rest = f"//{host.lower().replace('.blob.', '.dfs.', 1)}{slash}{path}"
    return f"{same}:{rest}"


def cluster(location: str) -> str:
    """The HDFS cluster that a location names, without its port; empty where it names none, or is no HDFS.

    Two clusters with the same folders are one place to `normalised`. So a right to delete asks for this one, too.
    """
    scheme, _, rest = location.partition(":")
    named = scheme.lower() == "hdfs" and rest.startswith("//")
    return rest[2:].partition("/")[0].rpartition("@")[2].partition(":")[0].lower() if named else ""


def is_local(location: str) -> bool:
    """Whether a location is on a disk of this machine."""
    return normalised(location).startswith("/")


PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.object-storage.path",
)
"""Table properties that choose folders in which a table's files are written, beside its location."""


MOST_PLACE_CHARS = 8192
"""Of such a folder. HDFS takes 8,000 for a path, and every other store takes fewer."""


def written_under(location: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Every folder in which files of a table are written, by what chose it: `location`, or a property."""
    return {"location": location} | {name: properties[name] for name in PLACES if properties.get(name)}


def too_long(location: str, properties: Mapping[str, str]) -> str:
    """Why nobody can write to a table that says so of its folders, or nothing where somebody may."""
    return next(
        (
            f"its {name} has more than {MOST_PLACE_CHARS} characters, and no store takes such a path; change it, or leave it out"
            for name, place in written_under(location, properties).items()
            if len(place) > MOST_PLACE_CHARS
        ),
        "",
    )


def misplaced(location: str, properties: Mapping[str, str], lies: str) -> str:
    """Why nothing is written to a table that says so of its folders, or nothing where it may be.

    Whoever may alter a table must not choose a folder of the machine on which somebody else's program runs; and files on
    its disk are read by nobody who looks for them elsewhere.

    Args:
        location: what the table says.
        properties: the table's.
        lies: the location of a file that the table has now.
    """
    is_here = is_local(location) and is_local(lies)
    for name, place in written_under(location, properties).items():
        if not is_plain(place.rstrip("/")):
            return f"its {name} {place!r} may name another place than it says"
        if is_local(place) and not is_here:
            return f"its {name} {place!r} is on a disk of this machine, and the table is not"
    return ""


def is_plain(location: str) -> bool:
    """Whether every program takes this location for the file that its text names, and for no other.

    `a/../b://c` and `1s3://b` have no scheme, so they name none.
    """
    parts = _parted(normalised(location))[1].removeprefix("/").split("/")
    return bool(
        _BEGINNING.match(location)
        and not any(character in location for character in "?#\\")
        and location.isprintable()
        and location == location.strip()
        and all(part not in {"", ".", ".."} for part in parts)
    )


def taken_for(location: str) -> tuple[str, ...]:
    """The locations, normalised, for which programs may take this one: what it says, and what is left of it.

    Hadoop and disks take several slashes for one, and follow dots; PyArrow cuts it at `?` and `#`; parsers of addresses
    leave out tabs and ends of lines.
    """
    if _is_short(location):
        return (normalised(location),)
    shorter = normalised(re.split(r"[?#]", re.sub(r"[\t\r\n]", "", location))[0].strip().replace("\\", "/"))
    scheme, rest = _parted(shorter)
    parts: list[str] = []
    for part in rest.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    begin = "/" if rest.startswith("/") else ""
    return normalised(location), f"{scheme}{begin}{'/'.join(parts)}"


def _parted(location: str) -> tuple[str, str]:
    """The scheme of a normalised location, with what parts it from the rest, and the rest."""
    scheme = _SCHEME.match(location)
    return location[: scheme.end() if scheme else 0], location[scheme.end() if scheme else 0 :]


def _is_short(location: str) -> bool:
    """Whether nothing of a location can be left out. Asked of each file of a table, so in a fraction of a microsecond."""
    return (
        location.isprintable()
        and "/." not in location
        and "?" not in location
        and "#" not in location
        and "\\" not in location
        and location.count("//") == ("://" in location and location[:1] != "/")
        and location[-1:] != " " != location[:1]
    )


def folder(location: str) -> str:
    """A folder's normalised location, with the slash at its end: what lies in it begins so."""
    return normalised(location).rstrip("/") + "/"


def in_all_spellings(location: str) -> str:
    """What a location has in common with each other one that lies there or deeper, however they are spelled: its path."""
    scheme, separator, rest = normalised(location).partition(":")
    path = rest.removeprefix("//").partition("/")[2] if rest.startswith("//") else rest
    return (path if separator else scheme).strip("/")


def deepest(location: str, folders: Collection[str]) -> str | None:
    """Of these folders (as `folder` gives them) the deepest in which a location lies, or None."""
    path = normalised(location)
    position = path.rfind("/")
    while position >= 0:
        if path[: position + 1] in folders:
            return path[: position + 1]
        position = path.rfind("/", 0, position)
    return None
