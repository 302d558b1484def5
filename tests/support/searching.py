"""Tables whose folders are searched, and daemons that do it."""

from pathlib import Path

from isotherm.core.quarantine import FOLDER
from isotherm.core.units import DAY_MS
from support.lab import wait_for_children

POLICY = """
tables: "*"
compact: {enabled: false}
expire: {enabled: false}
metadata: {keep_last: 5, at_once: 3, older_than: 1d}
orphans: {mode: MODE, older_than: 1d, every: 1d}
"""
APPLY, REPORT = (POLICY.replace("MODE", mode) for mode in ("apply", "report"))


def filled(lab, name="shop.orders", commits=4, **properties):
    table = lab.create(name, **{"write.metadata.previous-versions-max": "3", **properties})
    for hour in range(commits):
        lab.append(table, hour)
    return table


def home(table):
    return Path(table.metadata.location.removeprefix("file://"))


def plant(table, *names):
    """Files that nobody knows."""
    made = [home(table) / name for name in names]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"nobody knows me")
    return made


def files(table):
    return {path for path in home(table).rglob("*") if path.is_file()}


def rows(table):
    """The rows of each snapshot, by PyIceberg's own scan."""
    table.refresh()
    return {
        one.snapshot_id: sorted(table.scan(snapshot_id=one.snapshot_id).to_arrow()["id"].to_pylist())
        for one in table.metadata.snapshots
    }


def pass_by(lab, service, days):
    """So many days, in which the daemon turns every six hours."""
    for _ in range(round(days * 4)):
        lab.ahead_ms += DAY_MS // 4
        for _ in range(6):
            service.step(0)
            wait_for_children(service)


def ended(service, action):
    return [one for one in service.ledger.operations() if one.action is action and one.state != "running"]


ORPHANS = ("data/a.parquet", "data/at_hour=2026-01-01-01/b.parquet", "metadata/c-m0.avro", "metadata/d.stats")


def inside(table):
    """What lies in the quarantine, by where it was, with its content."""
    top = home(table) / FOLDER
    return {
        str(path.relative_to(top)).partition("/")[2]: path.read_bytes()
        for path in top.rglob("*")
        if path.is_file()
    }


def missed(lab, service, table):
    """A writer was slower than `orphans.older_than`: what it commits was taken away. Where it lay."""
    source = Path(table.inspect.files()["file_path"][0].as_py().removeprefix("file://"))
    late, gone = (home(table) / "data" / name for name in ("late.parquet", "gone.parquet"))
    for path in (late, gone):
        path.write_bytes(source.read_bytes())
    pass_by(lab, service, 4)
    assert not late.exists()
    (place,) = (home(table) / FOLDER).glob("*/data/late.parquet")
    place.rename(late)
    table.refresh()
    table.add_files([f"file://{late}"])
    late.rename(place)
    return late
