-- A ledger as the program of its version 4 wrote it. Names with a dollar sign are of the lake that it is put beside.
CREATE TABLE operations (
    job_id TEXT PRIMARY KEY, uuid TEXT NOT NULL, name TEXT NOT NULL, action TEXT NOT NULL, partition TEXT,
    state TEXT NOT NULL, started_at_ms INTEGER NOT NULL, value TEXT NOT NULL, job TEXT
, bytes INTEGER NOT NULL DEFAULT 0);
CREATE INDEX operations_table ON operations (uuid, started_at_ms);
CREATE INDEX operations_state ON operations (state);
CREATE TABLE deletions (
    uuid TEXT NOT NULL, path TEXT NOT NULL, job_id TEXT NOT NULL, state TEXT NOT NULL,
    marked_at_ms INTEGER NOT NULL, due_at_ms INTEGER NOT NULL, ended_at_ms INTEGER, cause TEXT NOT NULL DEFAULT 'expired', seen_through INTEGER, seen_snapshot INTEGER, looks INTEGER NOT NULL DEFAULT 0, why TEXT NOT NULL DEFAULT '', PRIMARY KEY (uuid, path)
) WITHOUT ROWID;
CREATE TABLE accounts (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, sequence_number INTEGER NOT NULL, origin TEXT NOT NULL,
    committed_at_ms INTEGER NOT NULL, received_at_ms INTEGER NOT NULL, decided_at_ms INTEGER, announced INTEGER NOT NULL,
    PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE INDEX accounts_open ON accounts (uuid, sequence_number) WHERE NOT announced;
CREATE INDEX accounts_told ON accounts (uuid, sequence_number) WHERE announced;
CREATE INDEX accounts_undecided ON accounts (uuid) WHERE decided_at_ms IS NULL;
CREATE TABLE changes (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, received_at_ms INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE INDEX changes_received ON changes (received_at_ms);
CREATE TABLE lateness (uuid TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE policies (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reloads (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, value TEXT NOT NULL);
CREATE TABLE holds (key TEXT PRIMARY KEY, uuid TEXT NOT NULL, value TEXT, told INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX holds_table ON holds (uuid);
CREATE INDEX holds_untold ON holds (key) WHERE NOT told;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX deletions_waiting ON deletions (uuid, due_at_ms) WHERE state = 'waiting';
CREATE TABLE taken (
    job_id TEXT NOT NULL, snapshot_id INTEGER NOT NULL, uuid TEXT NOT NULL, PRIMARY KEY (job_id, snapshot_id)
) WITHOUT ROWID;
CREATE INDEX deletions_ended ON deletions (ended_at_ms) WHERE ended_at_ms IS NOT NULL;
CREATE INDEX accounts_received ON accounts (received_at_ms) WHERE announced;
CREATE INDEX operations_started ON operations (started_at_ms, action);
CREATE TABLE places (
    number INTEGER PRIMARY KEY, uuid TEXT NOT NULL, location TEXT NOT NULL, is_home INTEGER NOT NULL,
    is_gone INTEGER NOT NULL DEFAULT 0, UNIQUE (uuid, location)
);
CREATE INDEX deletions_job ON deletions (job_id) WHERE state IN ('marked', 'waiting');
CREATE TABLE settled (job_id TEXT PRIMARY KEY, due_at_ms INTEGER) WITHOUT ROWID;
PRAGMA user_version=4;
INSERT INTO facts VALUES ('id', '6aef913e673f4b495226e1165ee19fab');
INSERT INTO facts VALUES ('is_new', 0);
INSERT INTO facts VALUES ('acts', 7);
INSERT INTO policies VALUES ('all.yaml', 'tables: "*"');
INSERT INTO reloads VALUES (1, $now, '{"ok":true,"files":1,"complaints":"","changes":"all.yaml: new, for *","tables":"","decisions_dropped":0}');
INSERT INTO places VALUES (1, '$orders', '$location', 1, 0);
INSERT INTO lateness VALUES ('$orders', '{"ages":[{"watched_ms":6345.5,"returns":0.9999991,"busiest":0.0,"day_from_ms":1795353240355,"on_day":0.9999991,"last_at_ms":1795353240355}],"since_ms":1795353235511,"updated_at_ms":1795353241857,"oldest_ms":1767229200000}');
INSERT INTO operations VALUES ('784b8001-6c8d-4725-b181-485302ce3223', '$orders', 'shop.orders', 'expire', NULL, 'done', $now, '{"job_id":"784b8001-6c8d-4725-b181-485302ce3223","table":{"uuid":"$orders","name":"shop.orders"},"action":"expire","partition":null,"label":"(snapshots)","why":"4 of 6 snapshots may go, due at 2","policy_hash":"ca04e2449fea","base_snapshot_id":6317466202057066998,"started_at_ms":$now,"bytes_planned":0,"asserted_head_id":6692836943366248236,"base_metadata":"","written":[],"state":"done","reason":"committed","outcome_why":"4 snapshots expired, 4 files have no reader any more","ended_at_ms":$now,"snapshot_id":null,"files_before":6,"files_after":2,"bytes_read":0,"bytes_written":0,"rows":0,"seconds":0.0,"peak_memory_bytes":0,"expired":4,"files_marked":2}', NULL, 0);
INSERT INTO deletions VALUES ('$orders', '$left', '784b8001-6c8d-4725-b181-485302ce3223', 'waiting', $now, $due, NULL, 'expired', NULL, NULL, 0, '');
INSERT INTO deletions VALUES ('$orders', '$live', '784b8001-6c8d-4725-b181-485302ce3223', 'waiting', $now, $due, NULL, 'expired', NULL, NULL, 0, '');
INSERT INTO operations VALUES ('a0f766ff-b4ff-4fbc-a9d1-60f573a36060', '$orders', 'shop.orders', 'expire', NULL, 'running', $now, '{"job_id":"a0f766ff-b4ff-4fbc-a9d1-60f573a36060","table":{"uuid":"$orders","name":"shop.orders"},"action":"expire","partition":null,"label":"(snapshots)","why":"4 of 6 snapshots may go, due at 2","policy_hash":"ca04e2449fea","base_snapshot_id":$head,"started_at_ms":$now,"bytes_planned":0,"asserted_head_id":$head,"base_metadata":"$base","written":[],"state":"running","reason":"","outcome_why":"","ended_at_ms":null,"snapshot_id":null,"files_before":6,"files_after":0,"bytes_read":0,"bytes_written":0,"rows":0,"seconds":0.0,"peak_memory_bytes":0,"expired":0,"files_marked":0}', NULL, 0);
INSERT INTO deletions VALUES ('$orders', '$marked', 'a0f766ff-b4ff-4fbc-a9d1-60f573a36060', 'marked', $now, 0, NULL, 'expired', 6, $head, 0, '');
INSERT INTO taken VALUES ('a0f766ff-b4ff-4fbc-a9d1-60f573a36060', $taken, '$orders');
INSERT INTO accounts VALUES ('$orders', $taken, 1, 'foreign', $now, $now, $now, 1);
INSERT INTO holds VALUES ('$paused/pause', '$paused', '{"kind":"pause","uuid":"$paused","name":"shop.paused","why":"load test","at_ms":$now,"partition":null,"until_ms":null,"failures":0,"under":""}', 1);
INSERT INTO holds VALUES ('$sick/quarantine/{"1000":490897}', '$sick', '{"kind":"quarantine","uuid":"$sick","name":"shop.sick","why":"missing_file: gone","at_ms":$now,"partition":"{\"1000\":490897}","until_ms":$until,"failures":3,"under":""}', 1);
