"""The dashboard is current, every metric in it exists, and it can be read without its author."""

import re

import promql_parser as promql
import pytest
import yaml

from grafana.queries import (
    DASHBOARD,
    ROOT,
    alerts,
    all_queries,
    daemon_metrics,
    dashboard,
    dashboards_module,
    exported,
    has_label,
    ingest_metrics,
    names_in,
    nodes,
    panel_queries,
    panels,
    selectors,
    substituted,
)

UNUSED_ON_PURPOSE = {
    "process_virtual_memory_bytes": "says little of a program that maps files",
    "process_max_fds": "a constant of the machine",
}
REGISTRIES = [daemon_metrics().registry, ingest_metrics().registry]
OF_PROMETHEUS = {"up"}


def test_the_json_is_what_the_code_says():
    assert dashboards_module().as_json() == DASHBOARD.read_text(encoding="utf-8"), (
        "stale: run python grafana/dashboards.py"
    )


@pytest.mark.parametrize("query", all_queries(), ids=str)
def test_every_expression_is_promql(query):
    promql.parse(substituted(query.expr))


@pytest.mark.parametrize("query", all_queries(), ids=str)
def test_every_metric_that_is_used_exists(query):
    known = OF_PROMETHEUS.union(
        *(series for registry in REGISTRIES for series in exported(registry).values())
    )

    assert names_in(query.expr) - known == set()


def test_every_metric_that_is_exported_is_shown_or_is_unused_on_purpose():
    used = set().union(*(names_in(query.expr) for query in all_queries()))
    unused = {
        name for registry in REGISTRIES for name, series in exported(registry).items() if not series & used
    }

    assert set(UNUSED_ON_PURPOSE) == unused


@pytest.mark.parametrize("query", panel_queries(), ids=str)
def test_a_counter_is_shown_as_a_rate_over_grafanas_own_interval(query):
    ranges = [node for node in nodes(query.expr) if isinstance(node, promql.MatrixSelector)]
    counters = [s for s in selectors(query.expr) if re.search(r"_(total|bucket|sum|count)$", str(s.name))]

    assert [str(c.name) for c in counters] == [str(r.vector_selector.name) for r in ranges]
    assert query.expr.count("[$__rate_interval]") == len(ranges)


@pytest.mark.parametrize("query", panel_queries(), ids=str)
def test_whatever_has_a_table_is_filtered_by_the_table_that_was_chosen(query):
    with_table = [
        s for s in selectors(query.expr) if any(has_label(r, str(s.name), "table") for r in REGISTRIES)
    ]
    filters = [[m.value for m in s.matchers.matchers if m.name == "table"] for s in with_table]

    assert filters == [[".*"]] * len(with_table)


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
class TestPanel:
    def test_it_says_what_it_shows_and_in_what_unit(self, panel):
        assert re.fullmatch(r"[A-Z][\w ,?-]+", panel["title"])
        assert re.fullmatch(r"(?s)[A-Z0-9].{15,}\.", panel["description"])
        assert panel["fieldConfig"]["defaults"]["unit"]

    def test_it_reads_from_the_data_source_that_was_chosen(self, panel):
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]

        assert sources == [{"type": "prometheus", "uid": "${datasource}"}] * len(sources)

    def test_every_series_has_a_name(self, panel):
        legends = [target["legendFormat"] for target in panel["targets"]]

        assert panel["type"] == "stat" or all(legends)
        assert len(set(legends)) == len(legends)

    def test_the_labels_of_a_legend_survive_the_aggregation(self, panel):
        for target in panel["targets"]:
            wanted = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            by = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            kept = {label.strip() for labels in by for label in labels.split(",")}
            if by:
                assert wanted - kept == set()


def test_titles_and_ids_are_unique():
    everything = dashboard()["panels"]

    assert len({panel["title"] for panel in everything}) == len(everything)
    assert len({panel["id"] for panel in everything}) == len(everything)


def test_panels_do_not_overlap():
    places = [
        (panel["gridPos"]["y"] + row, panel["gridPos"]["x"] + column)
        for panel in dashboard()["panels"]
        for row in range(panel["gridPos"]["h"])
        for column in range(panel["gridPos"]["w"])
    ]

    assert len(set(places)) == len(places)
    assert max(column for _, column in places) < 24


def test_the_variables_are_a_data_source_and_tables_that_follow_the_time_range():
    source, table = dashboard()["templating"]["list"]

    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (table["name"], table["type"], table["refresh"]) == ("table", "query", 2)
    assert table["datasource"]["uid"] == "${datasource}"
    assert names_in(re.search(r"label_values\((\w+), table\)", table["query"]["query"])[1]) <= set().union(
        *exported(daemon_metrics().registry).values()
    )


@pytest.mark.parametrize(
    ("title", "alert"),
    [
        ("Files in the fullest partition", "IsothermFilesPerPartitionHigh"),
        ("Snapshots that may go", "IsothermSnapshotsHigh"),
        ("Metadata file", "IsothermMetadataFileLarge"),
        ("Metadata", "IsothermMetadataLarge"),
        ("Compaction lag", "IsothermCompactionLagging"),
    ],
)
def test_the_line_in_a_graph_is_the_limit_of_its_alert(title, alert):
    panel = next(panel for panel in panels() if panel["title"] == title)
    rule = next(rule for rule in alerts() if rule["alert"] == alert)
    limit = 1.0
    for factor in rule["expr"].partition(" > ")[2].split("*"):
        limit *= float(factor)

    assert [None, limit] == [
        step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    ]


def test_what_grafana_is_provisioned_with_is_yaml_and_reads_the_folder_of_the_dashboard():
    folder = ROOT / "grafana" / "provisioning"
    dashboards = yaml.safe_load((folder / "dashboards" / "isotherm.yaml").read_text(encoding="utf-8"))
    sources = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text(encoding="utf-8"))

    assert [(p["type"], p["allowUiUpdates"]) for p in dashboards["providers"]] == [("file", False)]
    assert [source["type"] for source in sources["datasources"]] == ["prometheus"]
