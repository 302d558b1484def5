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

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    DataSourceRef,
    GraphDrawStyle,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
    VariableSort,
)

WRITTEN_TO = Path(__file__).parent / "dashboards" / "isotherm.json"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
TABLE = 'table=~"$table"'
RATE = "$__rate_interval"
"""Grafana's own choice: never shorter than four scrapes, so that no rate comes out empty."""
FILES_LIMIT, EXPIRE_LIMIT, METADATA_LIMIT, METADATA_FILE_LIMIT, LAG_LIMIT = 500, 3, 10e9, 50e6, 86_400
"""The limits of the alerts in grafana/alerts.yaml; a test holds them together."""
WIDTH, STAT_WIDTH, HEIGHT, STAT_HEIGHT = 8, 4, 8, 4

Query = tuple[str, str]
"""An expression, and how its series are called in the legend."""


def thresholds(warning: float | None = None, critical: float | None = None) -> build.ThresholdsConfig:
    """Green, yellow from `warning`, red from `critical`."""
    steps = [Threshold(value=None, color="green")]
    steps += [] if warning is None else [Threshold(value=warning, color="yellow")]
    steps += [] if critical is None else [Threshold(value=critical, color="red")]
    return build.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def targets(queries: Sequence[Query]) -> list[Builder[Dataquery]]:
    """The queries of a panel, named A, B, …."""
    return [
        prometheus.Dataquery()
        .datasource(SOURCE)
        .ref_id(chr(ord("A") + i))
        .expr(expr)
        .legend_format(legend)
        .range()
        for i, (expr, legend) in enumerate(queries)
    ]


def number(
    title: str,
    description: str,
    unit: str,
    expr: str,
    warning: float | None = None,
    critical: float | None = None,
) -> stat.Panel:
    """One number, coloured by its limits."""
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"])
    panel = stat.Panel().title(title).description(description).unit(unit).datasource(SOURCE)
    panel = (
        panel.targets(targets([(expr, "")])).thresholds(thresholds(warning, critical)).reduce_options(reduce)
    )
    panel = panel.color_mode(BigValueColorMode.VALUE).graph_mode(BigValueGraphMode.AREA)
    return panel.span(STAT_WIDTH).height(STAT_HEIGHT)


def graph(
    title: str, description: str, unit: str, *queries: Query, limit: float | None = None
) -> timeseries.Panel:
    """Lines over time; a limit is drawn as a dashed line."""
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = timeseries.Panel().title(title).description(description).unit(unit).datasource(SOURCE)
    panel = panel.targets(targets(queries)).legend(legend.show_legend(show_legend=True)).min(0)
    panel = panel.fill_opacity(10).show_points(VisibilityMode.NEVER).span(WIDTH).height(HEIGHT)
    if limit is not None:
        style = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(thresholds(critical=limit)).thresholds_style(style)
    return panel


def stacked(title: str, description: str, unit: str, *queries: Query) -> timeseries.Panel:
    """Parts of a whole over time."""
    stacking = common.StackingConfig().mode(StackingMode.NORMAL).group("A")
    return graph(title, description, unit, *queries).stacking(stacking).fill_opacity(40)


def bars(title: str, description: str, *queries: Query) -> timeseries.Panel:
    """How often something happened, stacked bars."""
    return stacked(title, description, "short", *queries).draw_style(GraphDrawStyle.BARS).fill_opacity(80)


def worst(metric: str) -> str:
    """The highest value for each table, over all daemons."""
    return f"max by (table) ({metric}{{{TABLE}}})"


def per_second(metric: str, by: str = "table", matchers: str = TABLE) -> str:
    """A counter's rate, summed."""
    return f"sum by ({by}) (rate({metric}{{{matchers}}}[{RATE}]))"


def times(metric: str, by: str = "table", matchers: str = TABLE) -> str:
    """How often a counter moved in each interval of the picture, summed."""
    return f"sum by ({by}) (increase({metric}{{{matchers}}}[{RATE}]))"


def quantiles(metric: str, by: str = "") -> tuple[Query, Query]:
    """The median and the 99th percentile of a histogram."""
    labels = f"{by}, le" if by else "le"
    legend = f"{{{{{by}}}}} " if by else ""

    def quantile(q: float) -> str:
        return f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket[{RATE}])))"

    return (quantile(0.5), f"{legend}p50"), (quantile(0.99), f"{legend}p99")


def keeping_up() -> Sequence[stat.Panel | timeseries.Panel]:
    """The row that a person on call looks at first, and perhaps last."""
    return [
        number(
            "Highest score",
            "Debt divided by its threshold in the policy, the worst table. From 1 on there is work; well above 1 for "
            "hours, the daemon does not keep up: look at jobs_at_once, budgets and the rows below.",
            "short",
            f"max(isotherm_score{{{TABLE}}})",
            1,
            3,
        ),
        number(
            "Longest compaction lag",
            "For how long the longest waiting partition has been due. The alert is at 24 hours.",
            "s",
            f"max(isotherm_compaction_lag_seconds{{{TABLE}}})",
            LAG_LIMIT / 4,
            LAG_LIMIT,
        ),
        number(
            "Due partitions",
            "Partitions that are cold and whose debt is at or above the policy's threshold.",
            "short",
            f'sum(isotherm_partitions{{verdict="due", {TABLE}}})',
        ),
        number(
            "Halted tables",
            "Tables that stand still until a person has looked. Each has a reason in the ledger and in the log.",
            "short",
            f"sum(isotherm_table_halted{{{TABLE}}})",
            None,
            1,
        ),
        number(
            "Events applied",
            "Commit events that became part of the state, per second.",
            "ops",
            f'sum(rate(isotherm_events_total{{outcome="applied"}}[{RATE}]))',
        ),
        number(
            "Since the last round",
            "Age of the last planning round of the slowest daemon. It should stay near loop.plan_every_s.",
            "s",
            "max(time() - isotherm_last_round_timestamp_seconds)",
            60,
            300,
        ),
        graph(
            "Score",
            "Debt divided by its threshold, the highest of what is not hot. The line at 1 is where work is due; after "
            "a job the score is below it.",
            "short",
            (worst("isotherm_score"), "{{table}}"),
            limit=1,
        ),
        graph(
            "Compaction lag",
            "For how long the longest waiting due partition of a table has been due. The line is the alert's limit.",
            "s",
            (worst("isotherm_compaction_lag_seconds"), "{{table}}"),
            limit=LAG_LIMIT,
        ),
        stacked(
            "Partitions by verdict",
            "Hot: the stream still writes them. Due: work waits. Unsupported: due, but this version cannot rewrite "
            "them. Quarantined: due, but their jobs failed three times in a row or more. Other: clean, running, tried "
            "again soon, or switched off.",
            "short",
            (f"sum by (verdict) (isotherm_partitions{{{TABLE}}})", "{{verdict}}"),
        ),
    ]


def tables() -> list[timeseries.Panel]:
    """What the tables cost their readers."""
    return [
        graph(
            "Files in the fullest partition",
            "Most data files in any one partition, hot ones too. The line is the alert's limit.",
            "short",
            (worst("isotherm_files_per_partition_max"), "{{table}}"),
            limit=FILES_LIMIT,
        ),
        graph(
            "Snapshots",
            "Snapshots of the main branch: at a commit a minute and seven days of keep_for, 10,000.",
            "short",
            (worst("isotherm_snapshots"), "{{table}}"),
        ),
        graph(
            "Snapshots that may go",
            "Snapshots that the policy would let go, over what makes an expiry due. After an expiry it is below 1. The "
            "line is the alert's limit.",
            "short",
            (worst("isotherm_expire_score"), "{{table}}"),
            limit=EXPIRE_LIMIT,
        ),
        graph(
            "Metadata",
            "Bytes of manifests that a reader of the head has to plan with. The line is the alert's limit.",
            "decbytes",
            (worst("isotherm_metadata_bytes"), "{{table}}"),
            limit=METADATA_LIMIT,
        ),
        graph(
            "Metadata file",
            "Bytes of the file that every commit writes again, the stream's too: it grows with snapshots and columns. "
            "The line is the alert's limit.",
            "decbytes",
            (worst("isotherm_metadata_file_bytes"), "{{table}}"),
            limit=METADATA_FILE_LIMIT,
        ),
        graph(
            "Files to rewrite",
            "Files in due partitions that a job would take now.",
            "short",
            (worst("isotherm_todo_files"), "{{table}}"),
        ),
        graph(
            "Bytes to rewrite",
            "Bytes in due partitions that a job would read now. Divided by the rate of bytes read, the time to drain.",
            "decbytes",
            (worst("isotherm_todo_bytes"), "{{table}}"),
        ),
        graph(
            "Halted or paused",
            "Halted: 1 while a table stands still until a person has looked. Paused: 1 while a person wants it so.",
            "short",
            (worst("isotherm_table_halted"), "{{table}} halted"),
            (worst("isotherm_table_paused"), "{{table}} paused"),
            limit=1,
        ),
    ]


def work() -> list[timeseries.Panel]:
    """What was done, and what came of it."""
    return [
        bars(
            "Jobs by outcome",
            "Ended jobs. `conflict`, `hot`, `cancelled` and `refused` are the writer winning: normal, and cheap when "
            "rare. `unknown`: the catalog did not answer; the daemon finds out by itself. `mismatch` halts the table.",
            (times("isotherm_jobs_total", "action, outcome, reason"), "{{action}} {{outcome}} ({{reason}})"),
        ),
        graph(
            "Jobs running",
            "Compactions that run now. At jobs_at_once all the time with a growing lag: allow more, or a budget less.",
            "short",
            ("sum(isotherm_jobs_running)", "running"),
        ),
        graph(
            "Time of a rewrite",
            "Seconds from start to commit of a rewrite, by action.",
            "s",
            *quantiles("isotherm_job_seconds", "action"),
        ),
        graph(
            "Bytes rewritten",
            "What compaction reads and writes, per second. budgets.bytes_per_hour limits what is read.",
            "Bps",
            (per_second("isotherm_bytes_read_total", "table"), "{{table}} read"),
            (per_second("isotherm_bytes_written_total", "table"), "{{table}} written"),
        ),
        bars(
            "Files compacted",
            "Data files that compaction made superfluous.",
            (times("isotherm_files_compacted_total"), "{{table}}"),
        ),
        bars(
            "Snapshots expired",
            "Snapshots that expiry took out of tables.",
            (times("isotherm_snapshots_expired_total"), "{{table}}"),
        ),
        bars(
            "Files deleted",
            "Files deleted after an expiry and its grace. Kept: a last look found somebody who still needs them. Put off: nobody could tell yet, or the store refused.",
            (times("isotherm_files_deleted_total"), "{{table}} deleted"),
            (times("isotherm_files_kept_total"), "{{table}} kept"),
            (times("isotherm_files_postponed_total"), "{{table}} put off"),
        ),
        graph(
            "Since the last success",
            "Age of the last job that succeeded. A table without work has no reason to be young here.",
            "s",
            (
                f"time() - max by (table, action) (isotherm_last_success_timestamp_seconds{{{TABLE}}})",
                "{{table}} {{action}}",
            ),
        ),
        graph(
            "Peak memory of a rewrite",
            "Peak memory of the last rewrite's own process; jobs_at_once of them may run.",
            "bytes",
            ("max(isotherm_job_peak_memory_bytes)", "last rewrite"),
        ),
    ]


def events() -> list[timeseries.Panel]:
    """What the daemon hears, and how fast it acts on it."""
    return [
        stacked(
            "Messages by outcome",
            "Messages of the control topic. Duplicates are normal after a restart. Deferred: the event did not fit the "
            "state, and the catalog is asked at the next round. Crowded: more intents, writers or unknown names than are "
            "kept, by mistake or by somebody's will; such a table stays hot until that is over.",
            "ops",
            (per_second("isotherm_events_total", "outcome", ""), "{{outcome}}"),
        ),
        graph(
            "Time to apply an event",
            "Seconds that one commit event costs: it depends on the manifests that it added, not on the table.",
            "s",
            *quantiles("isotherm_event_seconds"),
        ),
        graph(
            "Commit to decision",
            "Seconds from a writer's commit until the partitions that it touched had new verdicts.",
            "s",
            *quantiles("isotherm_commit_to_decision_seconds"),
        ),
        graph(
            "Messages of other systems",
            "Messages of the topics in kafka.sources, by what came of them. Most of a sink's announce no commit; "
            "unknown tables and snapshots are dropped.",
            "ops",
            (
                f"sum by (topic, outcome) (rate(isotherm_source_events_total[{RATE}]))",
                "{{topic}} {{outcome}}",
            ),
        ),
        graph(
            "Since the last event",
            "For how long nothing was heard of a table.",
            "s",
            (f"time() - max by (table) (isotherm_last_event_timestamp_seconds{{{TABLE}}})", "{{table}}"),
        ),
        bars(
            "What needed healing",
            "Snapshots that nobody had announced, full scans, and states that moved away from their table. Scans "
            "happen at a table's first sight; drift never should. Lost: messages of the control topic that may have "
            "gone by unread (deleted, or a topic that was made again); every table was looked at.",
            (times("isotherm_unannounced_snapshots_found_total"), "{{table}} unannounced"),
            (times("isotherm_table_scans_total"), "{{table}} scanned"),
            (times("isotherm_state_drift_total"), "{{table}} drifted"),
            (f"sum(increase(isotherm_events_lost_total[{RATE}]))", "messages lost"),
        ),
        bars(
            "Self-audit",
            "Partitions that were counted anew in idle time. None for long: the daemon is never idle.",
            (times("isotherm_partitions_recounted_total"), "{{table}}"),
        ),
        graph(
            "Stores of the daemon",
            "Bytes of the fold (a cache) and the ledger (to be backed up), and how much room is left on their disk.",
            "decbytes",
            ("max by (store) (isotherm_state_bytes)", "{{store}}"),
            ("min(isotherm_state_free_bytes)", "free"),
        ),
        graph(
            "What the rounds do without",
            "1 while the catalog does not answer (no table is looked at), the topic with halts cannot be read (nothing "
            "begins), or the control topic cannot be read to its end (nothing is compacted).",
            "short",
            ("max by (what) (isotherm_away)", "{{what}}"),
            limit=1,
        ),
        bars(
            "What did not answer",
            "Times that something outside did not answer, and messages that are no events of ours. What does not answer "
            "is asked less and less often, at most a minute apart.",
            (f"sum by (what) (increase(isotherm_unavailable_total[{RATE}]))", "{{what}}"),
            (f"sum(increase(isotherm_events_rejected_total[{RATE}]))", "messages rejected"),
        ),
    ]


def ingest() -> list[timeseries.Panel]:
    """The other half: the stream into the tables."""
    return [
        graph(
            "Rows",
            "Rows written into tables.",
            "ops",
            (per_second("isotherm_ingest_rows_total"), "{{table}}"),
        ),
        graph(
            "Commits",
            "Snapshots that ingest made. Each costs a manifest, and files in every partition that it touches.",
            "ops",
            (per_second("isotherm_ingest_commits_total"), "{{table}}"),
        ),
        graph(
            "Time of a batch",
            "Seconds of one micro-batch over all its tables. Above the trigger for long, ingest falls behind.",
            "s",
            *quantiles("isotherm_ingest_batch_seconds"),
        ),
        graph(
            "Lag",
            "Seconds from a change at its source to its commit in the table.",
            "s",
            (worst("isotherm_ingest_lag_seconds"), "{{table}}"),
        ),
        bars(
            "Recomputed MERGEs",
            "MERGEs that had to start again because somebody else committed to the same files meanwhile.",
            (times("isotherm_ingest_merges_recomputed_total"), "{{table}}"),
        ),
        bars(
            "Trouble",
            "Batches in which at least one table failed (it is tried again), and messages that could not be decoded: "
            "they stand in the dead-letter topic with their original bytes.",
            (f"sum(increase(isotherm_ingest_batches_failed_total[{RATE}]))", "failed batches"),
            (times("isotherm_ingest_dead_letters_total", "reason", ""), "dead letters: {{reason}}"),
        ),
        graph(
            "Quarantined tables",
            "1 while a table of the pipeline is left alone for a reason of its own; its rows wait in Kafka.",
            "short",
            (worst("isotherm_ingest_table_quarantined"), "{{table}}"),
            limit=1,
        ),
        graph(
            "Snapshots not announced yet",
            "Snapshots between the table's head and the last announced one. Above zero for minutes: the control topic "
            "does not take our events.",
            "short",
            (worst("isotherm_ingest_unannounced_snapshots"), "{{table}}"),
        ),
        bars(
            "Events announced",
            "Commit events that ingest sent, by who made the snapshot.",
            (times("isotherm_ingest_events_announced_total", "origin"), "{{origin}}"),
        ),
        bars(
            "Breaks in history",
            "Gaps (somebody expired what was not announced yet) and rollbacks, found while announcing.",
            (times("isotherm_ingest_history_breaks_total", "table, kind"), "{{table}} {{kind}}"),
        ),
    ]


def process() -> list[timeseries.Panel]:
    """The daemon's own process; ingest's where it exports the same."""
    ours = 'job=~"isotherm.*"'
    return [
        graph(
            "Memory",
            "Resident memory. Rewrites run in processes of their own and do not show here.",
            "bytes",
            (f"process_resident_memory_bytes{{{ours}}}", "{{job}} {{instance}}"),
        ),
        graph(
            "CPU",
            "Cores in use, without the rewrites.",
            "short",
            (f"rate(process_cpu_seconds_total{{{ours}}}[{RATE}])", "{{job}} {{instance}}"),
        ),
        graph(
            "Open files",
            "File descriptors, sockets too.",
            "short",
            (f"process_open_fds{{{ours}}}", "{{job}} {{instance}}"),
        ),
        graph("Time of a round", "Seconds of a planning round.", "s", *quantiles("isotherm_round_seconds")),
        graph(
            "Policies in force",
            "1: every policy file was good at the last reading. 0: a file is broken, and its last good version holds.",
            "short",
            ("min by (instance) (isotherm_policy_reload_successful)", "{{instance}}"),
        ),
        graph(
            "Deletions held back",
            "1 while a daemon expires and deletes nothing, because it does not believe its ledger or its clock.",
            "short",
            ("max by (instance) (isotherm_deletions_held)", "{{instance}}"),
            limit=1,
        ),
        graph(
            "Tables at rest",
            "Nobody has written to them for a day and they need nothing: they have no series of their own.",
            "short",
            ("max by (instance) (isotherm_tables_resting)", "{{instance}}"),
        ),
        bars(
            "Tables gone",
            "Tables that the catalog did not have any more, looked for twice, minutes apart.",
            ("sum by (instance) (increase(isotherm_tables_gone_total[$__rate_interval]))", "{{instance}}"),
        ),
        graph(
            "Versions and up-time",
            "How long each daemon has been up, by version.",
            "s",
            (
                f"(time() - process_start_time_seconds{{{ours}}}) * on (instance) group_left (version) isotherm_build_info",
                "{{instance}} {{version}}",
            ),
        ),
    ]


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
        "Tables": tables(),
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
