"""The rows about tables: is it keeping up, what do they cost their readers, what was done to them?"""

from collections.abc import Sequence

from grafana_foundation_sdk.builders import stat, timeseries

from panels import RATE, TABLE, bars, graph, number, per_second, quantiles, stacked, times, worst

FILES_LIMIT, EXPIRE_LIMIT, METADATA_LIMIT, METADATA_FILE_LIMIT, LAG_LIMIT = 500, 3, 10e9, 50e6, 86_400
"""The limits of the alerts in grafana/alerts.yaml; a test holds them together."""


def keeping_up() -> Sequence[stat.Panel | timeseries.Panel]:
    """The row that a person on call looks at first, and perhaps last."""
    return [*numbers(), *curves()]


def numbers() -> list[stat.Panel]:
    """How it is now."""
    return [
        number(
            "Highest score",
            "Debt divided by its threshold in the policy, the worst table. From 1 on there is work, unless the partition rests "
            "from its last job. Well above 1 for hours, with a lag: look at jobs_at_once, budgets and the rows below.",
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
    ]


def curves() -> list[timeseries.Panel]:
    """How it came to that."""
    return [
        graph(
            "Score",
            "Debt divided by its threshold, the highest of what is not hot. The line at 1 is where work is due, unless "
            "a partition that is written again rests from its last job.",
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
        graph(
            "Slowest reader",
            "For how long there has been something that a registered reader has not read (`isotherm reader`): what it needs "
            "does not expire. Beyond `expire.max_reader_lag` it is let go, which is an alert.",
            "s",
            (worst("isotherm_reader_lag_seconds"), "{{table}}"),
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


def readers() -> list[timeseries.Panel]:
    """Who reads them, where engines report it."""
    return [
        graph(
            "Reads a day",
            "How often a table is read, as engines have reported lately (http.scan_reports). What is read more is "
            "compacted sooner. Nothing is shown of tables whose readers report nothing.",
            "short",
            (worst("isotherm_reads_per_day"), "{{table}}"),
        ),
        graph(
            "Reports of engines",
            "Reports that engines sent to their REST catalog, where http.scan_reports is on and an ingress mirrors them. "
            "Counted: scans by readers. No scan: commits, and scans of writers. Crowded: more than are read. Refused: no "
            "report at all.",
            "ops",
            (per_second("isotherm_scan_reports_total", "outcome", ""), "{{outcome}}"),
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
            "Progress of rewrites",
            "The part of their bytes that the rewrites that run now have read, and of their rows that they have written, by "
            "table. What they wrote is read back after that. Of those on a cluster nothing is known.",
            "percentunit",
            (
                f'isotherm_rewrite_bytes{{{TABLE}, what="read"}} / ignoring(what) isotherm_rewrite_bytes{{{TABLE}, what="all"}}',
                "{{table}} read",
            ),
            (
                f'isotherm_rewrite_rows{{{TABLE}, what="written"}} / ignoring(what) isotherm_rewrite_rows{{{TABLE}, what="all"}}',
                "{{table}} written",
            ),
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
        *leavings(),
        *windows(),
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


def windows() -> list[timeseries.Panel]:
    """What writers granted of what they were asked for."""
    return [
        bars(
            "Windows that writers grant",
            "Asked: a writer was asked to leave a table alone (`compact.ask_writer`). `done`: what was due in it is done. "
            "`over`: too short for its jobs. `disturbed`: somebody wrote. `unanswered`: nobody granted one, however often.",
            (times("isotherm_windows_asked_total"), "{{table}} asked"),
            (times("isotherm_windows_ended_total", "table, end"), "{{table}} {{end}}"),
        ),
        bars(
            "Time of windows",
            "Seconds from the requests of windows to their ends. `late`: a request to the catalog was under way after the writers "
            "went on, so that they may have had to compute a batch again.",
            (times("isotherm_window_seconds_total"), "{{table}}"),
            (times("isotherm_window_late_seconds_total"), "{{table}} late"),
        ),
    ]


def leavings() -> list[timeseries.Panel]:
    """What went because of it."""
    return [
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
        bars(
            "Files through quarantine",
            "Orphans that were moved into quarantine (`orphans.mode: quarantine`), those that were deleted for good after `orphans.keep_for`, and those that came back because their table needs them: whoever read them meanwhile has failed.",
            (times("isotherm_files_quarantined_total"), "{{table}} moved"),
            (times("isotherm_files_purged_total"), "{{table}} deleted for good"),
            (times("isotherm_files_restored_total"), "{{table}} restored"),
        ),
        graph(
            "Files in quarantine",
            "Orphans that can still be restored (`isotherm orphans TABLE --restore`).",
            "short",
            (f"sum by (table) (isotherm_quarantined_files{{{TABLE}}})", "{{table}}"),
        ),
        graph(
            "Bytes in quarantine",
            "The size of these files: what `orphans.keep_for` costs.",
            "bytes",
            (f"sum by (table) (isotherm_quarantined_bytes{{{TABLE}}})", "{{table}}"),
        ),
        graph(
            "Files that nothing needs",
            "Old versions of the metadata (trim_metadata) and orphans (remove_orphans), as the table's folders were listed last. Orphans are only counted where `orphans.mode` is `report`.",
            "short",
            (f"sum by (table, action) (isotherm_unneeded_files{{{TABLE}}})", "{{table}} {{action}}"),
        ),
        graph(
            "Bytes that nothing needs",
            "The size of these files.",
            "bytes",
            (f"sum by (table, action) (isotherm_unneeded_bytes{{{TABLE}}})", "{{table}} {{action}}"),
        ),
    ]
