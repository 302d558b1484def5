"""What stands in the dashboard and the alert rules, taken apart; and what the two programs export."""

import importlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from prometheus_client import CollectorRegistry

from isotherm.telemetry.metrics import Metrics
from isotherm_ingest.metrics import Metrics as IngestMetrics

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "grafana" / "dashboards" / "isotherm.json"
ALERTS = ROOT / "grafana" / "alerts.yaml"
NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Query:
    """One expression, and the panel or alert that it belongs to."""

    where: str
    expr: str

    def __str__(self) -> str:
        return self.where


def daemon_metrics() -> Metrics:
    metrics = Metrics(lambda: NOW_MS, "test")
    metrics.watch(ROOT)
    return metrics


def ingest_metrics() -> IngestMetrics:
    return IngestMetrics()


def dashboards_module() -> Any:
    """`grafana/dashboards.py`, which is a program and in no package: its folder is where it imports from."""
    sys.path.append(str(ROOT / "grafana"))
    try:
        return importlib.import_module("dashboards")
    finally:
        sys.path.pop()


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def panels() -> list[dict[str, Any]]:
    """Every panel that shows something; rows are only headings."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def panel_queries() -> list[Query]:
    return [Query(f"{p['title']} {t['refId']}", t["expr"]) for p in panels() for t in p["targets"]]


def annotation_queries() -> list[Query]:
    return [Query(a["name"], a["expr"]) for a in dashboard()["annotations"]["list"]]


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alert_queries() -> list[Query]:
    return [Query(rule["alert"], rule["expr"]) for rule in alerts()]


def all_queries() -> list[Query]:
    return panel_queries() + annotation_queries() + alert_queries()


def substituted(expr: str, *, rate_interval: str = "4m", table: str = ".*") -> str:
    """The expression as Grafana would send it; nothing that only Grafana knows may be left."""
    text = expr.replace("$__rate_interval", rate_interval).replace("$table", table)
    assert "$" not in text, f"an unknown variable in {expr}"
    return text


def nodes(expr: str) -> Iterator[Any]:
    """The syntax tree of an expression, parents first."""

    def walk(node: Any) -> Iterator[Any]:
        yield node
        below = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "param", "vector_selector")]
        for child in [*below, *getattr(node, "args", [])]:
            if child is not None:
                yield from walk(child)

    return walk(promql.parse(substituted(expr)))


def selectors(expr: str) -> list[promql.VectorSelector]:
    return [node for node in nodes(expr) if isinstance(node, promql.VectorSelector)]


def names_in(expr: str) -> set[str]:
    """The metrics that an expression reads."""
    return {str(selector.name) for selector in selectors(expr)}


SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "info": ("_info",),
    "gauge": ("",),
}


def exported(registry: CollectorRegistry) -> dict[str, set[str]]:
    """The names of time series that a registry exports, by the metric that they belong to."""
    return {
        family.name: {family.name + suffix for suffix in SUFFIXES[family.type]}
        for family in registry.collect()
    }


def has_label(registry: CollectorRegistry, name: str, label: str) -> bool:
    """Whether a time series carries a label."""
    bare = re.sub(r"_(total|bucket|count|sum|info)$", "", name)
    return any(
        bare in names and label in getattr(collector, "_labelnames", ())
        # Nothing public tells the labels of a metric without samples.
        for collector, names in registry._collector_to_names.items()  # noqa: SLF001
    )


def program(name: str) -> str:
    """Path of a program of Debian's package `prometheus`; without it CI fails, and others are told how to get it."""
    path = shutil.which(name)
    if path is not None:
        return path
    message = f"{name} is not there: apt-get install prometheus (Debian, Ubuntu), or brew install prometheus"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
