"""The rows about processes: what does the daemon hear, does ingest flow, is the process well?"""

from grafana_foundation_sdk.builders import timeseries

from panels import RATE, TABLE, bars, graph, per_second, quantiles, stacked, times, worst


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
            "Partitions that were counted again in idle time. None for long: the daemon is never idle.",
            (times("isotherm_partitions_recounted_total"), "{{table}}"),
        ),
        *surroundings(),
    ]


def surroundings() -> list[timeseries.Panel]:
    """What it stands on, and does without."""
    return [
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
        graph(
            "Threads that hang",
            "Threads in which a catalog, a store or a library hangs, and that were given up. With eight names of the "
            "catalog no other is asked for; with sixteen of one kind of work no other is begun.",
            "short",
            ("max(isotherm_hanging_threads)", "threads"),
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
            "Seconds of one batch over all its tables. Longer than the window (`every`) for long: ingest falls behind.",
            "s",
            *quantiles("isotherm_ingest_batch_seconds"),
        ),
        graph(
            "Lag",
            "Seconds from a change at its source to its commit in the table.",
            "s",
            (worst("isotherm_ingest_lag_seconds"), "{{table}}"),
        ),
        *waiting(),
        bars(
            "Recomputed upserts",
            "Upserts that had to start again because somebody else committed to the same files meanwhile.",
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
        bars(
            "Tables that lack changes",
            "Times that a table was found to lack what it had, or what Kafka no longer holds, by how that came about.",
            (times("isotherm_ingest_holes_total", "table, why"), "{{table}}: {{why}}"),
        ),
        *announcing(),
    ]


def waiting() -> list[timeseries.Panel]:
    """What ingest has still to read."""
    return [
        graph(
            "Waiting messages",
            "Messages in Kafka that were not read yet, by topic. They wait for the next window; if it only grows, ingest "
            "falls behind, or the topic's tables are left alone.",
            "short",
            ("max by (topic) (isotherm_ingest_unread_messages)", "{{topic}}"),
        ),
        graph(
            "Unread share of what Kafka holds",
            "Near 1, the oldest unread messages are about to be deleted by the topic's retention.",
            "percentunit",
            ("max by (topic) (isotherm_ingest_unread_share)", "{{topic}}"),
        ),
        bars(
            "Tables left alone for the daemon",
            "Windows that the daemon asked for, by answer, and seconds for which a table was left alone in them: its rows wait "
            "in Kafka. At most a tenth of the time (`grant_windows` in streams.yaml).",
            (times("isotherm_ingest_windows_total", "table, answer"), "{{table}} {{answer}}"),
            (times("isotherm_ingest_window_seconds_total"), "{{table}} seconds"),
        ),
    ]


def announcing() -> list[timeseries.Panel]:
    """What ingest tells the daemon."""
    return [
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
