"""The tables of the ledger, version by version. `store/database` runs the steps that an older file lacks when it is opened."""

# One step for each version that was ever written; what a released version has is never changed, only added to by
# another step.
_VERSION_1 = """
CREATE TABLE operations (
    job_id TEXT PRIMARY KEY, uuid TEXT NOT NULL, name TEXT NOT NULL, action TEXT NOT NULL, partition TEXT,
    state TEXT NOT NULL, started_at_ms INTEGER NOT NULL, value TEXT NOT NULL, job TEXT
);
CREATE INDEX operations_table ON operations (uuid, started_at_ms);
CREATE INDEX operations_state ON operations (state);
CREATE TABLE deletions (
    uuid TEXT NOT NULL, path TEXT NOT NULL, job_id TEXT NOT NULL, state TEXT NOT NULL,
    marked_at_ms INTEGER NOT NULL, due_at_ms INTEGER NOT NULL, ended_at_ms INTEGER, PRIMARY KEY (uuid, path)
) WITHOUT ROWID;
CREATE INDEX deletions_due ON deletions (state, due_at_ms);
CREATE TABLE expired (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, job_id TEXT NOT NULL, PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE TABLE accounts (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, sequence_number INTEGER NOT NULL, origin TEXT NOT NULL,
    committed_at_ms INTEGER NOT NULL, received_at_ms INTEGER NOT NULL, decided_at_ms INTEGER, announced INTEGER NOT NULL,
    PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE TABLE halts (uuid TEXT PRIMARY KEY, reason TEXT NOT NULL, why TEXT NOT NULL, at_ms INTEGER NOT NULL);
CREATE TABLE quarantine (
    uuid TEXT NOT NULL, partition TEXT NOT NULL, until_ms INTEGER NOT NULL, failures INTEGER NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (uuid, partition)
) WITHOUT ROWID;
"""
_VERSION_2 = """
CREATE INDEX IF NOT EXISTS accounts_open ON accounts (uuid, sequence_number) WHERE NOT announced;
CREATE INDEX IF NOT EXISTS accounts_told ON accounts (uuid, sequence_number) WHERE announced;
CREATE INDEX IF NOT EXISTS accounts_undecided ON accounts (uuid) WHERE decided_at_ms IS NULL;
CREATE TABLE IF NOT EXISTS changes (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, received_at_ms INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS changes_received ON changes (received_at_ms);
CREATE TABLE IF NOT EXISTS lateness (uuid TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE policies (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reloads (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, value TEXT NOT NULL);
CREATE TABLE holds (key TEXT PRIMARY KEY, uuid TEXT NOT NULL, value TEXT, told INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX holds_table ON holds (uuid);
CREATE INDEX holds_untold ON holds (key) WHERE NOT told;
INSERT INTO holds SELECT uuid || '/halt', uuid, json_object('kind', 'halt', 'uuid', uuid, 'name', '',
    'why', reason || ': ' || why, 'at_ms', at_ms), 0 FROM halts;
INSERT INTO holds SELECT uuid || '/quarantine/' || partition, uuid, json_object('kind', 'quarantine', 'uuid', uuid,
    'name', '', 'why', why, 'at_ms', until_ms, 'partition', partition, 'until_ms', until_ms, 'failures', failures), 0
    FROM quarantine;
DROP TABLE halts;
DROP TABLE quarantine;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO facts VALUES ('id', lower(hex(randomblob(16))));
INSERT INTO facts SELECT 'is_new', NOT EXISTS (SELECT 1 FROM accounts) AND NOT EXISTS (SELECT 1 FROM operations);
"""
"""A hold without a value is one that was lifted, and that the topic does not know yet."""
_VERSION_3 = """
ALTER TABLE deletions ADD COLUMN cause TEXT NOT NULL DEFAULT 'expired';
ALTER TABLE deletions ADD COLUMN seen_through INTEGER;
ALTER TABLE deletions ADD COLUMN seen_snapshot INTEGER;
ALTER TABLE deletions ADD COLUMN looks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deletions ADD COLUMN why TEXT NOT NULL DEFAULT '';
DROP INDEX deletions_due;
CREATE INDEX deletions_waiting ON deletions (uuid, due_at_ms) WHERE state = 'waiting';
CREATE INDEX deletions_job ON deletions (job_id) WHERE state = 'marked';
CREATE TABLE taken (
    job_id TEXT NOT NULL, snapshot_id INTEGER NOT NULL, uuid TEXT NOT NULL, PRIMARY KEY (job_id, snapshot_id)
) WITHOUT ROWID;
INSERT INTO taken SELECT job_id, snapshot_id, uuid FROM expired;
DROP TABLE expired;
CREATE TABLE locations (uuid TEXT NOT NULL, location TEXT NOT NULL, at_ms INTEGER NOT NULL, gone INTEGER NOT NULL,
    PRIMARY KEY (uuid, location)) WITHOUT ROWID;
CREATE INDEX deletions_ended ON deletions (ended_at_ms) WHERE ended_at_ms IS NOT NULL;
CREATE INDEX accounts_received ON accounts (received_at_ms) WHERE announced;
CREATE INDEX operations_started ON operations (started_at_ms, action);
INSERT INTO facts VALUES ('acts', 0);
"""
"""`acts` counts what was done that cannot be undone; the topic with holds knows the newest count too."""
_VERSION_4 = """
CREATE TABLE places (
    number INTEGER PRIMARY KEY, uuid TEXT NOT NULL, location TEXT NOT NULL, is_home INTEGER NOT NULL,
    is_gone INTEGER NOT NULL DEFAULT 0, UNIQUE (uuid, location)
);
INSERT INTO places (uuid, location, is_home) SELECT uuid, location, 1 FROM locations ORDER BY at_ms;
DROP TABLE locations;
DROP INDEX deletions_job;
CREATE INDEX deletions_job ON deletions (job_id) WHERE state IN ('marked', 'waiting');
ALTER TABLE operations ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE operations SET bytes = COALESCE(MAX(json_extract(value, '$.bytes_read'), json_extract(value, '$.bytes_planned')), 0)
    WHERE json_valid(value);
CREATE TABLE settled (job_id TEXT PRIMARY KEY, due_at_ms INTEGER) WITHOUT ROWID;
"""
"""Places are numbered as they were seen: a clock may go back. What counted as gone is looked for again. `settled` has the
jobs whose marked files are confirmed (with their time) or dropped (without), a slice at a time."""
_VERSION_5 = """
ALTER TABLE deletions ADD COLUMN before TEXT;
CREATE TABLE silences (
    kind TEXT NOT NULL, name TEXT NOT NULL, asked_at_ms INTEGER NOT NULL, lasted_s REAL NOT NULL, pause_s REAL NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
"""
"""`before` is what was known of a file when an expiry marked it again that has not ended: it counts where that comes to
nothing."""
_VERSION_6 = """
CREATE TABLE reads (
    uuid TEXT PRIMARY KEY, scans REAL NOT NULL, at_ms INTEGER NOT NULL, since_ms INTEGER NOT NULL
) WITHOUT ROWID;
"""
_VERSION_7 = """
ALTER TABLE lateness ADD COLUMN at_ms INTEGER NOT NULL DEFAULT 0;
UPDATE lateness SET at_ms = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
"""
"""`at_ms` is when the table was confirmed last: what it has taught is forgotten long after it is gone."""
_VERSION_8 = """
CREATE TABLE seen (
    uuid TEXT PRIMARY KEY, sequence_number INTEGER NOT NULL, at_ms INTEGER NOT NULL
) WITHOUT ROWID;
"""
"""How far each table had come when its metadata was read. Events are no witnesses of that: with a number that somebody made
up, the table would count as cut back for ever. So nothing of the accounts is taken over."""
_VERSION_9 = """
CREATE INDEX places_gone ON places (uuid) WHERE is_gone;
ALTER TABLE holds ADD COLUMN is_wait INTEGER NOT NULL DEFAULT 0;
UPDATE holds SET is_wait = json_extract(value, '$.kind') IS 'quarantine' WHERE json_valid(value);
CREATE INDEX holds_of_tables ON holds (uuid) WHERE NOT is_wait;
"""
"""Few tables are known to be gone, among all that ever were: each sweep and each search asks for them. `is_wait` tells what
holds one partition from what holds its whole table: of the first there may be thousands."""
_VERSION_10 = """
ALTER TABLE seen ADD COLUMN watched_since_ms INTEGER;
ALTER TABLE seen ADD COLUMN rewritten_in INTEGER;
ALTER TABLE seen ADD COLUMN rewritten_at_ms INTEGER NOT NULL DEFAULT 0;
"""
"""For how long a table was watched, and who else has rewritten its files: snapshots expire, and then nothing tells."""
_VERSION_11 = """
ALTER TABLE seen ADD COLUMN followed_through INTEGER NOT NULL DEFAULT 0;
UPDATE seen SET followed_through = sequence_number;
"""
"""A search and a deletion read metadata whose history nobody has followed. Until this version both were one number."""
_VERSION_12 = """
CREATE TABLE second_names (name TEXT PRIMARY KEY, uuid TEXT NOT NULL) WITHOUT ROWID;
"""
"""Names that were seen to be a table of ours once more: when they give no answer later, somebody must know which."""
_VERSION_13 = """
CREATE TABLE positions (
    uuid TEXT NOT NULL, reader TEXT NOT NULL, name TEXT NOT NULL, snapshot_id INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    PRIMARY KEY (uuid, reader)
) WITHOUT ROWID;
"""
_VERSION_14 = """
ALTER TABLE deletions ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX deletions_quarantined ON deletions (uuid, path) WHERE cause = 'quarantined' AND state = 'waiting';
"""
"""A file in quarantine has a row of its own, under the path that it has there. Its size is told, and summed up."""
_VERSION_15 = """
ALTER TABLE deletions ADD COLUMN until_ms INTEGER;
UPDATE deletions SET until_ms = due_at_ms WHERE cause = 'quarantined' AND state = 'waiting';
"""
"""Until when a file can be restored was promised when it was moved. It may be looked at before, so that its next look is
another time. Of what is there by now the next look is all that is known: of a file that was looked at early, the policy's
time counts as before."""
VALUES = frozenset(
    {
        *("operations.value", "operations.job", "holds.value", "reloads.value", "lateness.value"),
        *("policies.text", "deletions.before"),
    }
)
"""Columns that are read as bytes: where one is damaged, even so that it is no text any more, its row alone has trouble."""
VERSIONS = (
    *(_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5),
    *(_VERSION_6, _VERSION_7, _VERSION_8, _VERSION_9, _VERSION_10, _VERSION_11, _VERSION_12),
    *(_VERSION_13, _VERSION_14, _VERSION_15),
)
