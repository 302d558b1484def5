"""Properties by which a table is not written, whoever says them: its owner, or the stream that it is made for."""

from collections.abc import Mapping

CODE = "write.location-provider.impl"
WAIT_MS = 60_000
"""The longest pause between two tries. No property but `commit.retry.num-retries` of ten or more makes Iceberg's own longer
than a minute, and then a minute is its limit."""
LOOKS = 30
"""How often Iceberg may look whether a commit has landed of which nobody knows; its default is 3."""
PAUSES = {"commit.retry": (4, 100, WAIT_MS), "commit.status-check": (3, 1000, WAIT_MS)}
"""By the beginning of properties, Iceberg's own number of tries, its first pause, which doubles, and its longest."""


def refused_property(properties: Mapping[str, str]) -> str:
    """Why a table with these properties is not written, or nothing where it is."""
    return _of_files(properties) or _of_pauses(properties)


def _of_files(properties: Mapping[str, str]) -> str:
    kind = properties.get("write.format.default", "parquet")
    if kind.lower() != "parquet":
        return f"is to have files in {kind}: ingest writes Parquet (`write.format.default`)"
    if "encryption.key-id" in properties:
        return "is to have encrypted files (`encryption.key-id`), which ingest does not write"
    if CODE in properties:
        return f"names code that is to run here (`{CODE}`): ingest runs none of a table's, so unset it"
    return ""


def _of_pauses(properties: Mapping[str, str]) -> str:
    """All tables of a batch wait for a commit. How long it is tried in all is bounded where it is made."""
    for begin, own in PAUSES.items():
        names = [f"{begin}.{name}" for name in ("num-retries", "min-wait-ms", "max-wait-ms")]
        try:
            tries, first_ms, most_ms = (
                int(properties.get(name, default)) for name, default in zip(names, own, strict=True)
            )
        except ValueError:
            return f"has no number where one is due ({', '.join(names)})"
        longest_ms = min(first_ms * 2 ** min(max(tries - 1, 0), 60), most_ms)
        if longest_ms > WAIT_MS:
            return (
                f"has a commit wait up to {longest_ms // 1000} s before it is tried again, and all tables with it "
                f"({', '.join(names)}): {WAIT_MS // 1000} s are the most"
            )
        if tries > LOOKS and begin == "commit.status-check":
            return f"has a lost commit looked for {tries} times ({begin}.num-retries): {LOOKS} are the most"
    return ""
