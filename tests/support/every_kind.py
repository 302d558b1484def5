"""A catalog that holds everything: tables of each format, nested namespaces, and a table for each way to be damaged."""

import gzip
import json
import sqlite3
from pathlib import Path

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.paths import normalised
from support.lab import Lab

POLICY = """
tables: "*"
cold: {after: 1, quiet_for: 0s, quiet_commits: 2}
compact: {min_files: 3}
expire: {keep_for: 0s, keep_last: 3, at_once: 2, every: 0s, delete_after: 0s}
override: [expire.keep_for, expire.keep_last, expire.delete_after]
"""
HOURS = (1, 1, 1, 2, 3, 4)


def metadata_of(table):
    return Path(normalised(table.refresh().metadata_location))


def list_of(table):
    return Path(normalised(table.refresh().current_snapshot().manifest_list))


def manifest_of(table):
    manifests = read_manifest_list(table.io, table.refresh().current_snapshot().manifest_list)
    return Path(normalised(manifests[0].manifest_path))


def later_format(table):
    path = metadata_of(table)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format-version": 4}))


def without_history(table):
    path = metadata_of(table)
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"current-snapshot-id": 77, "refs": {}}))


def cut(place):
    def damage(table):
        path = place(table)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return damage


def emptied(place):
    return lambda table: place(table).write_bytes(b"")


def gone(place):
    return lambda table: place(table).unlink()


def overwritten(place):
    def damage(table):
        path = place(table)
        content = bytearray(path.read_bytes())
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
        path.write_bytes(content)

    return damage


def packed(place):
    return lambda table: place(table).write_bytes(gzip.compress(place(table).read_bytes()))


DAMAGE = {
    "later_format": later_format,
    "no_such_head": without_history,
    "metadata_cut": cut(metadata_of),
    "metadata_empty": emptied(metadata_of),
    "metadata_gone": gone(metadata_of),
    "metadata_packed": packed(metadata_of),
    "list_cut": cut(list_of),
    "list_empty": emptied(list_of),
    "list_gone": gone(list_of),
    "manifest_cut": cut(manifest_of),
    "manifest_empty": emptied(manifest_of),
    "manifest_gone": gone(manifest_of),
    "manifest_overwritten": overwritten(manifest_of),
}
SOUND = {
    "shop.format_1": {"format-version": "1"},
    "shop.format_2": {},
    "shop.deep.down.below": {},
    "shop.With Space": {},
}


def filled(lab, name, **properties):
    table = lab.create(name, **properties)
    for hour in HOURS:
        lab.append(table, hour)
    return table


def every_kind(root):
    """A lab with a table of every kind, and what each was before it was damaged."""
    lab = Lab(root, policy=POLICY)
    lab.catalog.create_namespace("shop.deep")
    lab.catalog.create_namespace("shop.deep.down")
    lab.sound = {name: filled(lab, name, **properties) for name, properties in SOUND.items()}
    lab.sound["shop.format_3"] = of_format_3(filled(lab, "shop.format_3"))
    lab.damaged, lab.whole = {}, {}
    for name, damage in DAMAGE.items():
        table = filled(lab, f"bad.{name}")
        places = (metadata_of(table), list_of(table), manifest_of(table))
        lab.whole[f"bad.{name}"] = {path: path.read_bytes() for path in places}
        damage(table)
        lab.damaged[f"bad.{name}"] = table
    # A row whose table never was: an import that broke off.
    with sqlite3.connect(root / "catalog.db") as catalog:
        catalog.execute(
            "INSERT INTO iceberg_tables SELECT catalog_name, 'bad', 'nowhere', 'file:///nowhere/metadata.json', NULL, 'TABLE' "
            "FROM iceberg_tables LIMIT 1"
        )
    catalog.close()
    return lab


def of_format_3(table):
    path = metadata_of(table)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format-version": 3, "next-row-id": 0}))
    return table
