"""How much at once a table's owner may have read of it.

Rows of a mirror are looked for in the JVM in which all tables are written, and properties of the table say how much of
its files is taken at once. Where one would fill the JVM's memory, it is read with the nearest value that does not.
"""

from collections.abc import Mapping

MIB = 1024 * 1024
BATCH = (1, 20_000)
"""Rows of a column that are decoded together, for which room is taken before the first is read; Iceberg's default is 5,000."""
LIMITS = {
    "read.parquet.vectorization.batch-size": ("batch-size", BATCH),
    "read.orc.vectorization.batch-size": ("batch-size", BATCH),
    # A file without places at which it may be divided is divided evenly: by 1, into as many tasks as it has bytes.
    "read.split.target-size": ("split-size", (16 * MIB, 1024 * MIB)),
    # Each file is held against so many tasks that are not full.
    "read.split.planning-lookback": ("lookback", (1, 1000)),
    "read.split.open-file-cost": ("file-open-cost", (0, 64 * MIB)),
}
"""By property of a table, the option of a reading that wins over it, and the least and the largest value that it may have.
Ordinary ones lie between."""


def read_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The options with which a table is read; none where all that it says of it may be."""
    found: dict[str, str] = {}
    for name, (option, (least, most)) in LIMITS.items():
        value = _number(properties.get(name, ""))
        if value is not None and not least <= value <= most:
            found[option] = str(min(max(value, least), most))
    return found


def _number(text: str) -> int | None:
    """What Java reads in it; None where that is no number, which Iceberg says itself."""
    digits = text.removeprefix("-").removeprefix("+")
    return int(text) if digits.isdecimal() and len(digits) < 20 else None
