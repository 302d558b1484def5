"""No secret is in what `isotherm doctor` prints, nor in its bundle, wherever one can stand: each place has its own."""

import zipfile
from dataclasses import replace

import pytest
import yaml
from pyiceberg.table import Table
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.core.model.jobs import Action
from isotherm.store.folder import LEDGER
from isotherm.store.ledger import Ledger
from support.servers import http_server
from support.worked import worked_in

PLACES = {
    "a property of the catalog": "sesame-catalog-1",
    "one that nobody has heard of": "sesame-unheard-2",
    "the second part of a credential": "sesame-credential-3",
    "the user in an address": "sesame-address-4",
    "the query of an address": "sesame-query-5",
    "the address of its store": "sesame-store-6",
    "the file of catalog properties": "sesame-file-7",
    "a property of Kafka": "sesame-kafka-8",
    "a line of its JAAS": "sesame-jaas-9",
    "a line of its key": "sesame-pem-10",
    "the file of Kafka properties": "sesame-kafkafile-11",
    "a number": "90210777123",
    "the address of a Spark cluster": "sesame-spark-12",
    "the environment's word on the configuration": "sesame-override-13",
    "a key in the environment": "sesame-aws-14",
    "an address in the environment": "sesame-proxy-15",
    "PyIceberg's own environment": "sesame-pyiceberg-16",
    "PyIceberg's own file": "sesame-home-17",
    "a comment of the configuration": "sesame-comment-18",
    "a comment of a policy": "sesame-policycomment-19",
    "a policy that is broken": "sesame-broken-20",
    "a file in the policy folder that is none": "sesame-nopolicy-21",
    "a property of a table": "sesame-table-22",
    "a folder that the owner of a table names": "sesame-folder-23",
    "what a daemon's /readyz says": "sesame-readyz-24",
    "its metrics": "sesame-metrics-25",
    "a why in the ledger, of an address": "sesame-ledger-26",
    "a why in the ledger, of a password alone": "sesame-catalog-1",
    "the list of folders in which may be deleted": "sesame-under-27",
}
"""Every place where a secret can stand that doctor reads, or that reads it for doctor."""


@pytest.fixture
def worked(tmp_path, monkeypatch):
    """A lake, a daemon's folder and a configuration that have all of them."""
    lab = worked_in(tmp_path / "lake")
    table = lab.catalog.load_table("shop.orders")
    told(lab, table)
    files(tmp_path, lab)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".pyiceberg.yaml").write_text(
        yaml.safe_dump({"catalog": {"lake": {"adls.connection-string": PLACES["PyIceberg's own file"]}}})
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", PLACES["PyIceberg's own environment"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PLACES["a key in the environment"])
    monkeypatch.setenv("HTTPS_PROXY_OF_OURS", f"http://me:{PLACES['an address in the environment']}@proxy")
    override = PLACES["the environment's word on the configuration"]
    monkeypatch.setenv("ISOTHERM_CATALOG__PROPERTIES", "{header.authorization: " + override + "}")
    return tmp_path


def told(lab, table: Table):
    """What the owner of a table says, and the ledger."""
    owner = f"s3://me:{PLACES['a folder that the owner of a table names']}@bucket/elsewhere"
    with table.transaction() as change:
        change.set_properties(
            {"s3.secret-access-key": PLACES["a property of a table"], "write.data.path": owner}
        )
    ledger = Ledger(lab.root / "state" / LEDGER)
    operation = ledger.operations(limit=1)[0]
    for place in ("a why in the ledger, of an address", "a why in the ledger, of a password alone"):
        secret = PLACES[place]
        why = f"http://me:{secret}@catalog/x" if "address" in place else f"refused: {secret}"
        ledger.save(replace(operation, job_id=place, action=Action.EXPIRE, outcome_why=why))
    ledger.close()


def files(folder, lab):
    """The configuration, its files, and the policies."""
    address = PLACES["the user in an address"]
    config = {
        "catalog": {
            "properties": {
                **lab.properties,
                "s3.secret-access-key": PLACES["a property of the catalog"],
                "unheard.of": PLACES["one that nobody has heard of"],
                "credential": f"me:{PLACES['the second part of a credential']}",
                "oauth2-server-uri": f"http://me:{address}@c/x?sig={PLACES['the query of an address']}",
                "s3.endpoint": f"http://me:{PLACES['the address of its store']}@s3",
            },
            "properties_from": "catalog.yaml",
        },
        "kafka": {
            "properties": {
                "bootstrap.servers": "127.0.0.1:1",
                "sasl.password": PLACES["a property of Kafka"],
                "sasl.jaas.config": f'x required password="{PLACES["a line of its JAAS"]}";',
                "ssl.key.pem": f"-----BEGIN KEY-----\n{PLACES['a line of its key']}\n-----END KEY-----",
                "ssl.key.password": int(PLACES["a number"]),
            },
            "properties_from": "kafka.yaml",
        },
        "executors": {"spark": {"remote": f"sc://s:15002/;token={PLACES['the address of a Spark cluster']}"}},
        "deletions": {
            "also_under": [f"s3://me:{PLACES['the list of folders in which may be deleted']}@bucket/x"]
        },
        "state": {"path": str(lab.root / "state")},
        "policies": "policies",
    }
    comment = PLACES["a comment of the configuration"]
    (folder / "isotherm.yaml").write_text(f"# password: {comment}\n{yaml.safe_dump(config)}")
    (folder / "catalog.yaml").write_text(f"gcs.oauth2.token: {PLACES['the file of catalog properties']}\n")
    (folder / "kafka.yaml").write_text(
        f"sasl.oauthbearer.client.secret: {PLACES['the file of Kafka properties']}\n"
    )
    policies = folder / "policies"
    policies.mkdir()
    (policies / "good.yaml").write_text(f"# {PLACES['a comment of a policy']}\ntables: shop.*\n")
    (policies / "broken.yaml").write_text(
        f"tables: other.*\npassword: {PLACES['a policy that is broken']}\ncold: {{after: 3h}}\n"
    )
    (policies / "none.yaml").write_text(f"{PLACES['a file in the policy folder that is none']}\n")


def texts_of(bundle):
    with zipfile.ZipFile(bundle) as packed:
        return "\n".join(f"{one}\n{packed.read(one).decode()}" for one in packed.namelist())


def said_by_a_daemon(_, path):
    place = "what a daemon's /readyz says" if path == "/readyz" else "its metrics"
    return 503, f"http://me:{PLACES[place]}@catalog does not answer, nor does {PLACES['a property of Kafka']}"


def test_wherever_one_can_stand(worked):
    bundle = worked / "b.zip"
    with http_server(said_by_a_daemon) as url:
        config = yaml.safe_load((worked / "isotherm.yaml").read_text())
        config["http"] = {"port": int(url.rpartition(":")[2])}
        comment = (worked / "isotherm.yaml").read_text().partition("\n")[0]
        (worked / "isotherm.yaml").write_text(f"{comment}\n{yaml.safe_dump(config)}")
        asked = ["doctor", str(worked / "isotherm.yaml")]
        printed = CliRunner().invoke(app, [*asked, "--bundle", str(bundle)])
        as_json = CliRunner().invoke(app, [*asked, "-o", "json"])
    texts = {
        "what it prints": printed.output,
        "its JSON": as_json.output,
        "the bundle": texts_of(bundle),
    }

    assert {place: name for name, text in texts.items() for place, one in PLACES.items() if one in text} == {}
    # What was looked at had them: the test proves nothing of what was never read.
    assert "write.data.path is s3://***@bucket/elsewhere" in " ".join(printed.stdout.split())
    assert "a why in the ledger, of a password alone" in texts["the bundle"]
    assert "***@catalog does not answer, nor does ***" in texts["the bundle"]
    assert '"shop.*"' in texts["the bundle"]
    assert "broken.yaml:2:1" in texts["the bundle"]
