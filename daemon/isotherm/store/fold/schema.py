"""The tables of the fold."""

VERSION = 18

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (ledger TEXT, rules TEXT);
CREATE TABLE IF NOT EXISTS tables (
    uuid TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, facts TEXT NOT NULL,
    confirmed_head INTEGER, last_event_at_ms INTEGER NOT NULL DEFAULT 0, of_table TEXT NOT NULL DEFAULT '{"of_table":[]}',
    trusted INTEGER NOT NULL DEFAULT 1, touched INTEGER NOT NULL DEFAULT 1, whole_touched INTEGER NOT NULL DEFAULT 1,
    due INTEGER NOT NULL DEFAULT 0, wake_at_ms INTEGER, whole_wake_at_ms INTEGER,
    confirmed_at_ms INTEGER NOT NULL DEFAULT 0, changed_at_ms INTEGER NOT NULL DEFAULT 0, anew_after TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tables_agenda ON tables (touched, trusted, due, wake_at_ms, whole_wake_at_ms,
    confirmed_at_ms, changed_at_ms, last_event_at_ms, anew_after);
CREATE INDEX IF NOT EXISTS tables_name ON tables (name);
CREATE TABLE IF NOT EXISTS snapshots (
    uuid TEXT NOT NULL, place INTEGER NOT NULL, snapshot_id INTEGER NOT NULL, sequence_number INTEGER NOT NULL,
    committed_at_ms INTEGER NOT NULL, token TEXT NOT NULL, is_pinned INTEGER NOT NULL, kept_until_ms INTEGER NOT NULL,
    left_at_ms INTEGER NOT NULL, is_rewrite INTEGER NOT NULL,
    PRIMARY KEY (uuid, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS astray (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, sequence_number INTEGER NOT NULL, since_ms INTEGER NOT NULL,
    token TEXT NOT NULL, is_staged INTEGER NOT NULL, PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS partitions (
    uuid TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
    touched INTEGER NOT NULL DEFAULT 1, verdict TEXT, score REAL NOT NULL DEFAULT 0, files INTEGER NOT NULL DEFAULT 0,
    due_since_ms INTEGER, waits_since_ms INTEGER, wake_at_ms INTEGER, wake_boundary_ms INTEGER, wake_commits INTEGER,
    PRIMARY KEY (uuid, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS partitions_touched ON partitions (uuid) WHERE touched;
CREATE INDEX IF NOT EXISTS partitions_due ON partitions (uuid, score) WHERE verdict = 'due';
CREATE INDEX IF NOT EXISTS partitions_waiting ON partitions (uuid, waits_since_ms) WHERE verdict = 'due';
CREATE INDEX IF NOT EXISTS partitions_at ON partitions (uuid, wake_at_ms) WHERE wake_at_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS partitions_boundary ON partitions (uuid, wake_boundary_ms) WHERE wake_boundary_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS partitions_commits ON partitions (uuid, wake_commits) WHERE wake_commits IS NOT NULL;
CREATE INDEX IF NOT EXISTS partitions_tally ON partitions (uuid, verdict, score, files, due_since_ms);
CREATE TABLE IF NOT EXISTS journal (
    number INTEGER PRIMARY KEY, uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, bytes INTEGER NOT NULL,
    change TEXT NOT NULL, prior TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS journal_snapshot ON journal (uuid, snapshot_id);
CREATE INDEX IF NOT EXISTS journal_size ON journal (uuid, number, bytes);
CREATE TABLE IF NOT EXISTS intents (
    uuid TEXT NOT NULL, intent_id TEXT NOT NULL, expires_at_ms INTEGER NOT NULL, is_stranger INTEGER NOT NULL,
    names_all INTEGER NOT NULL, size INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (uuid, intent_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS intents_all ON intents (uuid, expires_at_ms) WHERE names_all;
CREATE INDEX IF NOT EXISTS intents_expiry ON intents (expires_at_ms);
CREATE INDEX IF NOT EXISTS intents_strangers ON intents (uuid) WHERE is_stranger;
CREATE TABLE IF NOT EXISTS announcers (
    uuid TEXT NOT NULL, writer TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (uuid, writer)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS troubles (
    name TEXT PRIMARY KEY, doing TEXT NOT NULL, error TEXT NOT NULL, since_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS words (
    uuid TEXT NOT NULL, writer TEXT NOT NULL, value TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (uuid, writer)
) WITHOUT ROWID;
"""
"""`changed_at_ms` is the time of the head's commit when the head was last confirmed. `anew_after`: the partitions behind
this key are decided again, slice by slice, whatever else stands at them; null: there are none. `due_since_ms` counts for
people, also while a partition is hot; `waits_since_ms` for its turn, from when a job might have begun. An intent's `value` is
the last column, and its `size` a column of its own: intents are counted without reading what they name."""
