"""The dashboard, as code: `python grafana/dashboards.py` writes `grafana/dashboards/isotherm.json`.

The JSON is checked in, so that nobody needs this program to import it; a test fails when the two differ. It is
Grafana's classic model, which Grafana 10 to 13 read from a file. Rows go from the question that a person on call asks
first (is it keeping up?) to the one asked last (is the process well?). Wherever a number has a limit, the limit is
drawn, and it is the limit of the alert or the policy. Series are summed over daemons; nothing shows a partition, for
there may be a million.
"""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    VariableRefresh,
    VariableSort,
)

from panels import SOURCE
from rows_of_processes import events, ingest, process
from rows_of_tables import keeping_up, readers, tables, work

WRITTEN_TO = Path(__file__).parent / "dashboards" / "isotherm.json"


def restarts() -> build.AnnotationQuery:
    """A line through every graph where a daemon was started."""
    query = (
        build.AnnotationQuery()
        .name("Daemon started")
        .datasource(SOURCE)
        .enable(enable=True)
        .icon_color("blue")
    )
    return query.expr('changes(process_start_time_seconds{job="isotherm"}[1m]) > 0').title_format("started")


def dashboard() -> Dashboard:
    """The whole dashboard."""
    source = build.DatasourceVariable("datasource").label("Data source").type("prometheus")
    table = build.QueryVariable("table").label("Table").datasource(SOURCE)
    table = table.query({"query": "label_values(isotherm_snapshots, table)", "refId": "table"})
    table = table.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    table = table.multi(multi=True).include_all(include_all=True).all_value(".*")
    whole = build.Dashboard("Isotherm").uid("isotherm").tags(["isotherm", "iceberg"])
    whole = whole.description(
        "Maintenance of Iceberg tables that streams write: docs/operations.md, docs/runbook.md."
    )
    whole = whole.with_variable(source).with_variable(table)
    whole = (
        whole.time("now-6h", "now").refresh("30s").timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
    )
    whole = whole.readonly().annotation(restarts())
    rows: dict[str, Sequence[stat.Panel | timeseries.Panel]] = {
        "Is it keeping up?": keeping_up(),
        "Tables": [*tables(), *readers()],
        "Work": work(),
        "Events": events(),
        "Ingest": ingest(),
        "Process": process(),
    }
    ids = itertools.count(1)
    for title, panels in rows.items():
        whole = whole.with_row(build.Row(title).id(next(ids)))
        for panel in panels:
            whole = whole.with_panel(panel.id(next(ids)))
    return whole.build()


def as_json() -> str:
    """The dashboard as it is checked in."""
    return json.dumps(dashboard(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    WRITTEN_TO.write_text(as_json(), encoding="utf-8")
    print(f"wrote {WRITTEN_TO}")
