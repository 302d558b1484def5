"""A real REST catalog: Iceberg's own adapter over a JDBC catalog, behind Jetty, with tables on S3.

The server's parts are put together from here, through py4j (which comes with PySpark), so that no Java has to be
compiled: a Java *runtime* is all that the tests may ask for. What a catalog's operator adds stands in `Guarded`:
tokens that expire, principals that may not commit, keys of the store that are lent for a while.
"""

import itertools
import json
from pathlib import Path
from urllib.parse import parse_qs

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway
from pyiceberg.catalog import load_catalog

from isotherm.contract.summary import JOB_ID
from isotherm.demo.stack import Process, jar_paths
from isotherm.demo.stack.kafka import java_command
from isotherm.iceberg.catalog import connect
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import CatalogConfig, ExecutorsConfig, LocalExecutorConfig
from support.http_front import Answer, Front, Guard, Request
from support.lab import HOURS, SCHEMA, Lab
from support.object_store import BUCKET, ObjectStore

READY_WITHIN_S = 60
ANSWER_WITHIN_S = 1


class RestServer:
    """A JVM in which any number of catalogs run, each on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        log = folder / "rest.log"
        of_spark = Path(pyspark.__file__).parent / "jars"
        jars = [*jar_paths("rest-catalog", folder), *of_spark.glob("py4j-*.jar")]
        jars += of_spark.glob("hadoop-client-*.jar")  # files of this machine
        self.process = Process(
            "the REST catalog", java_command(jars, "py4j.GatewayServer", "0", heap_mb=256), log, folder=folder
        )
        self.process.start()
        self._log = log

    def catalog(self, store: ObjectStore) -> str:
        """A new catalog without tables, whose own files are on the store; gives its address."""
        number = next(self._numbers)
        return self._serve(
            self._folder / f"catalog-{number}.db",
            {
                "warehouse": f"s3://{BUCKET}/rest-{number}",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "s3.endpoint": store.endpoint,
                "s3.path-style-access": "true",
                "s3.access-key-id": "catalog",
                "s3.secret-access-key": "catalog",
                "client.region": "us-east-1",
            },
        )

    def catalog_of_files(self, folder: Path, database: Path) -> str:
        """A new catalog without tables, with files in a folder of this machine; gives its address."""
        files = {"warehouse": f"file://{folder}", "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}
        return self._serve(database, files)

    def _serve(self, database: Path, files: dict[str, str]) -> str:
        gateway = self._gateway()
        java = gateway.jvm
        properties = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{database}",
            "jdbc.schema-version": "V1",
            # SQLite has one writer.
            "clients": "1",
            **files,
        }
        rest, jetty = java.org.apache.iceberg.rest, java.org.eclipse.jetty
        hadoop = java.org.apache.hadoop.conf.Configuration()
        catalog = java.org.apache.iceberg.CatalogUtil.buildIcebergCatalog("lake", properties, hadoop)
        servlet = rest.RESTCatalogServlet(rest.RESTCatalogAdapter(catalog))
        handler = jetty.ee10.servlet.ServletContextHandler()
        handler.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(handler)
        server.start()
        url = f"http://127.0.0.1:{server.getURI().getPort()}"
        gateway.close()
        return url

    def _gateway(self) -> JavaGateway:
        """A connection to the JVM; what is made through it stays when it is closed."""
        self.process.wait_until(self._says_its_port, READY_WITHIN_S, "says its port")
        port = int(self._log.read_text().split()[0])
        return JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True, enable_memory_management=False)
        )

    def _says_its_port(self) -> bool:
        return self._log.read_text()[-1:] == "\n"


class Guarded(Guard):
    """What an operator puts before a catalog."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.readers: set[str] = set()
        """Principals that may not commit."""
        self.borrowers: set[str] = set()
        """Principals that get keys of the store with each table."""
        self.issued: list[str] = []
        self.lent: list[str] = []
        self._good: dict[str, str] = {}

    def expire_tokens(self) -> None:
        """No token that was issued so far is good any more."""
        self._good.clear()

    def renew_keys(self) -> None:
        """The store takes none of the keys any more that were lent so far."""
        self.store.refused_keys.update(self.lent)

    def refusal(self, request: Request) -> Answer | None:
        if request.path.endswith("/v1/oauth/tokens"):
            return self._token(request)
        principal = self._principal(request)
        if principal is None:
            return _refused(401, "NotAuthorizedException", "The token has expired")
        if principal in self.readers and request.method not in ("GET", "HEAD"):
            why = f"Principal '{principal}' is not authorized for op UPDATE_TABLE"
            return _refused(403, "ForbiddenException", why)
        return None

    def changed(self, request: Request, answer: Answer) -> Answer:
        if self._principal(request) not in self.borrowers or answer.status != 200:
            return answer
        content = json.loads(answer.body) if answer.body.startswith(b"{") else {}
        if request.method != "GET" or "metadata-location" not in content:
            return answer
        key = f"lent-{len(self.lent) + 1}"
        self.lent.append(key)
        keys = {
            "s3.access-key-id": key,
            "s3.secret-access-key": "for a while",
            "s3.session-token": f"{key}-session",
        }
        content["storage-credentials"] = [{"prefix": f"s3://{BUCKET}", "config": keys}]
        return Answer(answer.status, answer.headers, json.dumps(content).encode())

    def _token(self, request: Request) -> Answer:
        principal = parse_qs(request.body.decode())["client_id"][0]
        token = f"token-{len(self.issued) + 1}"
        self.issued.append(token)
        self._good[token] = principal
        return _json(200, {"access_token": token, "token_type": "bearer", "expires_in": 3600})

    def _principal(self, request: Request) -> str | None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        return self._good.get(headers.get("authorization", "").removeprefix("Bearer "))


def _refused(status: int, kind: str, why: str) -> Answer:
    return _json(status, {"error": {"message": why, "type": kind, "code": status}})


def _json(status: int, content: object) -> Answer:
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(content).encode())


class RestLab(Lab):
    """A daemon on such a catalog, through a front on which things go wrong; writers go straight to the server."""

    def __init__(self, root: Path, server: RestServer, front: Front, guard: Guarded, policy: str) -> None:
        self.server, self.front, self.guard = server, front, guard
        self.is_ahead_ms = 0
        self.writer = load_catalog("lake", **self.properties_of("writer", front.upstream))
        super().__init__(root, policy=policy, properties=self.properties_of("isotherm", front.url))
        config = CatalogConfig(properties=self.properties, timeout_s=ANSWER_WITHIN_S)
        two = ExecutorsConfig(local=LocalExecutorConfig(jobs_at_once=2))
        self.config = self.config.model_copy(update={"catalog": config, "executors": two})
        self.executor = LocalExecutor(jobs_at_once=2, deadline_s=60)
        self.catalog = connect(config)

    def properties_of(self, principal: str, url: str) -> dict[str, str]:
        """How a principal reaches the catalog; `isotherm` is the daemon's."""
        store = {**self.guard.store.properties(), "s3.access-key-id": principal}
        if principal in self.guard.borrowers:
            store = {name: text for name, text in store.items() if "key" not in name}
        token = f"{url}/v1/oauth/tokens"
        return {
            "type": "rest",
            "uri": url,
            "credential": f"{principal}:secret",
            "oauth2-server-uri": token,
            **store,
        }

    def create(self, name="shop.orders", spec=HOURS, **properties):
        namespace = tuple(name.split(".")[:-1])
        for depth in range(1, len(namespace) + 1):
            self.writer.create_namespace_if_not_exists(namespace[:depth])
        return self.writer.create_table(name, SCHEMA, partition_spec=spec, properties=properties)

    def maintainer(self, executor):
        """The real one; time that the lab has skipped is none for it, because the catalog compares its own with it."""
        maintainer = IcebergMaintainer(self.catalog, executor, lambda: now_ms() + self.is_ahead_ms)
        maintainer.lab = self
        return maintainer

    def read(self, name="shop.orders", snapshot_id=None):
        """What an independent reader finds."""
        scan = self.writer.load_table(name).scan(snapshot_id=snapshot_id)
        return sorted(map(repr, scan.to_arrow().to_pylist()))

    def ours(self, name="shop.orders"):
        """The ids of the jobs in a table's history."""
        snapshots = self.writer.load_table(name).snapshots()
        found = [snapshot.summary.additional_properties for snapshot in snapshots]
        return [summary[JOB_ID] for summary in found if JOB_ID in summary]
