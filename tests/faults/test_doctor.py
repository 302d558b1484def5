"""`isotherm doctor` and `isotherm init` on a REST catalog, S3 and a broker: rights that are missing are told, each by its name."""

import json
import uuid

import pytest
import yaml
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from typer.testing import CliRunner

from isotherm.cli import app
from support.http_front import Fault as FrontFault
from support.object_store import Fault

pytestmark = pytest.mark.stack


@pytest.fixture
def lab(rest_lab, servers):
    lab = rest_lab()
    table = lab.create()
    for hour in (1, 1, 2):
        lab.append(table, hour, announce=False)
    lab.create("nested.below.items")
    return lab


@pytest.fixture
def ask(lab, kafka, tmp_path):
    """Doctor on that lake; its findings by subject, and the exit code."""
    config = {
        "catalog": {"properties": lab.properties},
        "kafka": {
            "properties": {"bootstrap.servers": kafka.bootstrap_servers},
            "control_topic": f"control-{uuid.uuid4()}",
        },
        "state": {"path": str(tmp_path / "a state")},
        "policies": str(lab.config.policies),
        "http": {"port": 0},
    }
    path = tmp_path / "doctored.yaml"

    def run(*words, **kafka_says):
        config["kafka"] |= kafka_says
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)
        result = CliRunner().invoke(app, ["doctor", str(path), "-o", "json", *words])
        told = json.loads(result.stdout)["findings"]
        return result.exit_code, told, config["kafka"]["control_topic"]

    return run


def of(told, subject):
    return [(one["mark"], one["found"]) for one in told if one["subject"] == subject]


def wrong(told):
    return [(one["subject"], one["found"]) for one in told if one["mark"] == "wrong"]


def test_where_all_is_well_nothing_is_for_a_person_and_nothing_is_made(ask, lab, kafka, store):
    before = sorted(store.objects())
    code, told, topic = ask("--write-test")

    assert (code, wrong(told)) == (0, []), wrong(told)
    # PyArrow leaves an empty object named like the folder where it deletes a file.
    assert [key for key in sorted(store.objects()) if not key.endswith("/")] == before
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=30).topics
    assert topic not in topics
    assert of(told, "catalog") == [("well", "answers; 2 namespaces at the top")]
    assert ("well", "shop.orders is loaded") in of(told, "namespace shop")
    assert ("well", "may commit to shop.orders, as far as can be told without doing it") in of(
        told, "namespace shop"
    )
    assert of(told, "namespace nested") == [("well", "listed: 0 tables")]
    assert ("well", "listed: 1 table") in of(told, "namespace nested.below")
    assert of(told, f"topic {topic}") == [
        ("unknown", "commit events and intents: it is not there: the daemon makes it at its start")
    ]
    [said] = [said for _, said in of(told, "clock")]
    assert said == "this machine's clock agrees with that of the catalog, within 45s"
    steps = [said for _, said in of(told, "store s3://lake")]
    assert steps[0].startswith("read: metadata.json of nested.below.items")
    assert steps[2].startswith("a small file was written in s3://lake/")
    assert steps[-1].startswith("a small file was deleted in s3://lake/")
    # The table has no other version than before: what was asked of the catalog was turned down.
    assert len(lab.writer.load_table("shop.orders").metadata.metadata_log) == 3


def test_a_principal_that_may_not_commit_is_told_so_in_the_catalogs_words(ask, lab):
    lab.guard.readers.add("isotherm")
    code, told, _ = ask()

    assert code == 1
    assert [subject for subject, _ in wrong(told)] == ["namespace nested.below", "namespace shop"]
    assert "Principal 'isotherm' is not authorized for op UPDATE_TABLE" in wrong(told)[1][1]


def test_a_namespace_that_does_not_answer_hides_no_other(ask, lab):
    lab.front.faults.append(FrontFault("GET", "/namespaces/shop/tables", 10, "500"))
    _, told, _ = ask()

    assert [subject for subject, _ in wrong(told)] == ["namespace shop"]
    assert ("well", "nested.below.items is loaded") in of(told, "namespace nested.below")


def test_a_store_that_refuses_to_write_or_to_delete_or_to_list(ask, store):
    store.faults += [Fault("PUT", "isotherm-doctor-", 10, "403")]
    code, told, _ = ask("--write-test")
    assert (code, [subject for subject, _ in wrong(told)]) == (1, ["store s3://lake"])
    assert "writing s3://lake/" in wrong(told)[0][1]
    store.faults[:] = [Fault("DELETE", "isotherm-doctor-", 10, "403")]
    _, told, _ = ask("--write-test")
    assert "which stays there" in wrong(told)[0][1]
    store.faults[:] = [Fault("GET", "list-type=2", 10, "403")]
    _, told, _ = ask()
    assert wrong(told)[0][0] == "store s3://lake"
    assert "ACCESS_DENIED" in wrong(told)[0][1]


def test_topics_that_do_not_keep_what_they_should(ask, kafka):
    control = kafka.create_topic(f"control-{uuid.uuid4()}", 2, {"retention.ms": "60000"})
    holds = kafka.create_topic(f"{control}.state", 1, {"cleanup.policy": "delete"})
    kafka.create_topic(f"{control}.readers", 1, {"cleanup.policy": "compact"})
    code, told, _ = ask(control_topic=control)

    assert code == 1
    assert [one["subject"] for one in told if one["mark"] == "wrong"] == [
        f"topic {control}",
        f"topic {holds}",
    ]
    assert "retention.ms is 60000" in wrong(told)[0][1]
    assert wrong(told)[1][1] == "cleanup.policy is delete: a halt is gone once it is old"
    assert ("well", "commit events and intents: 2 partitions, 1 copy of each, kept for 1m") in of(
        told, f"topic {control}"
    )
    assert ("well", "may read and write") in of(told, f"topic {control}")
    assert ("well", "readers that expiry waits for: 1 partition, 1 copy of each, compacted") in of(
        told, f"topic {control}.readers"
    )
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, control, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(30)
    _, told, _ = ask(control_topic=control)
    assert "all but the last are lost" in wrong(told)[0][1]


def test_init_writes_what_doctor_finds_well_on_the_very_lake(lab, kafka, tmp_path):
    folder = tmp_path / "first"
    secrets = [
        word
        for name, text in lab.properties.items()
        if name != "uri"
        for word in ("--property", f"{name}={text}")
    ]
    made = CliRunner().invoke(
        app,
        [
            "init",
            "--catalog-uri",
            lab.properties["uri"],
            *secrets,
            "--kafka",
            kafka.bootstrap_servers,
            str(folder),
        ],
    )

    assert made.exit_code == 0, made.output
    assert "credential" not in (folder / "isotherm.yaml").read_text().partition("kafka:")[0].replace(
        "credentials", ""
    )
    assert "isotherm:secret" in (folder / "catalog-secrets.yaml").read_text()
    result = CliRunner().invoke(app, ["doctor", str(folder / "isotherm.yaml"), "-o", "json"])
    told = json.loads(result.stdout)["findings"]
    assert (result.exit_code, wrong(told)) == (0, [])
    assert of(told, "tables")[0][1] == "2 of 2 loaded; 1 table with a policy"
