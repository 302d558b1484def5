"""Who reads the port, the journal or the ledger learns no secret; who writes the state folder gets no live file."""

from pathlib import Path

import pytest
from prometheus_client import generate_latest

from isotherm.contract.paths import normalised
from isotherm.core.deletion import Cause, Mark
from isotherm.iceberg.catalog import connect
from isotherm.runtime import logs
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import Unavailable
from isotherm.telemetry.metrics import Metrics
from support.lab import EXPIRING, Lab, settle, started, uuid_of

HIDDEN = "hunter2"


def test_what_is_said_stored_and_measured_has_no_secret_in_it(tmp_path, capsys):
    """Also while things go wrong: it is the complaints that quote."""
    lab = Lab(tmp_path)
    lab.config = lab.config.model_copy(update={"catalog": lab.config.catalog.model_copy(update={
        "properties": lab.properties | {"s3.secret-access-key": HIDDEN, "credential": f"id:{HIDDEN}", "token": HIDDEN}
    })})  # fmt: skip
    lab.catalog = connect(lab.config.catalog)
    for name in ("aaa", "bbb"):
        table = lab.create(f"shop.{name}")
        for hour in (1, 1, 1, 2, 3, 4):
            lab.append(table, hour)
    Path(normalised(table.metadata_location)).write_text("{")
    service = lab.settled()
    service.stop()
    logs.configure("DEBUG", "json")
    metrics = Metrics(lab.now_ms, "test")
    for one in lab.seen:
        logs.tell(one)
        metrics(one)
    shown = capsys.readouterr()

    assert "table_failed" in shown.err
    assert HIDDEN not in shown.err + shown.out + generate_latest(metrics.registry).decode()
    stores = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert stores
    assert [path for path in stores if HIDDEN.encode() in path.read_bytes()] == []
    lab.executor.stop()


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "rest", "uri": f"http://user:{HIDDEN}@127.0.0.1:1"},
        {"type": "rest", "uri": f"//user:{HIDDEN}@127.0.0.1"},
        {"type": "rest", "uri": "http://127.0.0.1:1", "credential": f"id:{HIDDEN}"},
        {"type": "rest", "uri": "http://127.0.0.1:1", "token": f"{HIDDEN}\nx"},
        {"type": "sql", "uri": f"nonsense+driver://user:{HIDDEN}@127.0.0.1/db"},
        {"type": "sql", "uri": f"user:{HIDDEN}@127.0.0.1/db"},
        {"type": HIDDEN},
        {"py-io-impl": "a.B", "type": "sql", "uri": f"sqlite:////nowhere/{HIDDEN}/x.db"},
    ],
)
def test_a_catalog_that_cannot_be_had_is_told_without_its_password(properties):
    with pytest.raises(Unavailable) as told:
        connect(CatalogConfig(properties={"warehouse": "file:///tmp", **properties})).list_namespaces()

    hidden = HIDDEN if properties.get("type") != HIDDEN and "nowhere" not in properties["uri"] else "\x00"
    assert hidden not in str(told.value)


def test_a_forged_mark_deletes_neither_what_is_read_nor_what_is_anothers(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    mine, other = lab.create("shop.mine"), lab.create("shop.other")
    for table in (mine, other):
        for hour in (1, 2, 3):
            lab.append(table, hour)
    service = started(lab)
    settle(service)
    orphan = Path(normalised(other.metadata.location)) / "data" / "nobody.parquet"
    orphan.write_bytes(b"x")
    outside = tmp_path / "outside.parquet"
    outside.write_bytes(b"x")
    live = [task.file.file_path for table in (mine, other) for task in table.refresh().scan().plan_files()]
    through = f"{mine.metadata.location}/data/../../other/data/nobody.parquet"
    forged = [*live, mine.metadata_location, f"file://{orphan}", f"file://{outside}", through]
    marks = [Mark(path, "forged", Cause.LEFTOVER, None) for path in forged]
    service.ledger.mark(uuid_of(mine), "forged", marks, service.now_ms(), due_at_ms=service.now_ms())
    settle(service)

    assert orphan.exists()
    assert outside.exists()
    assert all(Path(normalised(path)).exists() for path in (*live, mine.metadata_location))
    service.stop()
    lab.executor.stop()
