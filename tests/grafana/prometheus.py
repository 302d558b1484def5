"""A real Prometheus for a while, and the questions that a dashboard asks it.

As a program it asks for every graph whether two running programs fill it, for instance those of
`make demo ARGS="--keep"`:

    python tests/grafana/prometheus.py http://127.0.0.1:9464 http://127.0.0.1:9465

It prints the queries that stay empty, and ends with 1 if there are any.
"""

import argparse
import json
import math
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event

CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
scrape_configs:
  - {{job_name: isotherm, static_configs: [{{targets: ["{daemon}"]}}]}}
  - {{job_name: isotherm-ingest, static_configs: [{{targets: ["{ingest}"]}}]}}
"""
READY_WITHIN_S = 60
PAUSE_S = 0.3
"""Between two rounds of questions; Prometheus scrapes twice a second."""


@contextmanager
def scraping(binary: str, folder: Path, daemon: str, ingest: str) -> Iterator[str]:
    """A Prometheus that scrapes two addresses (`host:port`) twice a second; gives its own."""
    config = folder / "prometheus.yaml"
    config.write_text(CONFIG.format(daemon=daemon, ingest=ingest))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={listen}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _await(process, f"http://{listen}/-/ready", folder / "prometheus.log")
        yield f"http://{listen}"
    finally:
        process.terminate()
        process.wait(20)


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Until it answers; fails with its log where it ends before, or takes too long."""
    ends_at = time.monotonic() + READY_WITHIN_S
    while process.poll() is None and time.monotonic() < ends_at:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 (http, our own)
                return
        except OSError:
            Event().wait(PAUSE_S)
    raise AssertionError(f"prometheus is not ready: {log.read_text()[-2000:]}")


def has_numbers(address: str, expr: str) -> bool:
    """Whether an instant query returns at least one series whose value is a number."""
    url = f"{address}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 (http, above)
            result = json.load(response)["data"]["result"]
    except urllib.error.HTTPError as err:
        if err.code == 503:
            return False
        raise AssertionError(f"{expr}: {err.read().decode()}") from err
    except (urllib.error.URLError, ConnectionError):
        return False
    return any(not math.isnan(float(series["value"][1])) for series in result)


def empty_after(
    address: str, queries: Mapping[str, str], deadline_s: float, move: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Ask until every query has had numbers once; gives those that never had. `move` makes something happen."""
    waiting = dict(queries)
    ends_at = time.monotonic() + deadline_s
    while waiting and time.monotonic() < ends_at:
        move()
        waiting = {where: expr for where, expr in waiting.items() if not has_numbers(address, expr)}
        Event().wait(PAUSE_S)
    return waiting


def main() -> int:
    """Ask for every graph whether two running programs fill it."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from grafana.queries import panel_queries, program, substituted

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("daemon", help="where the daemon serves /metrics: http://127.0.0.1:9464")
    parser.add_argument("ingest", help="where ingest does: http://127.0.0.1:9465")
    parser.add_argument("--for", dest="for_s", type=float, default=60, help="seconds to wait for numbers")
    said = parser.parse_args()
    targets = [address.removeprefix("http://").rstrip("/") for address in (said.daemon, said.ingest)]
    queries = {query.where: substituted(query.expr, rate_interval="30s") for query in panel_queries()}
    with (
        tempfile.TemporaryDirectory() as folder,
        scraping(program("prometheus"), Path(folder), *targets) as address,
    ):
        empty = empty_after(address, queries, said.for_s)
    for where, expr in empty.items():
        sys.stdout.write(f"empty: {where}: {expr}\n")
    sys.stdout.write(f"{len(queries) - len(empty)} of {len(queries)} queries returned numbers\n")
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main())
