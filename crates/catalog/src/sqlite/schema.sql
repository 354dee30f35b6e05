-- The catalog's tables, format 10 (`PRAGMA user_version`) with guard.sql, journal_checksums.sql, transactions.sql and
-- path_handles.sql, and with the column `versions.attributes` (schema.rs).
-- Unsigned numbers of 64 bits are kept as SQLite's signed ones, bit for bit; times are nanoseconds since 1970; paths are bytes.

-- The last number given of each kind: see counters.rs.
CREATE TABLE counters (
    only        INTEGER PRIMARY KEY CHECK (only = 0),
    sequence    INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    session     INTEGER NOT NULL,
    container   INTEGER NOT NULL,
    versioned   INTEGER NOT NULL,
    unversioned INTEGER NOT NULL
) STRICT;

-- Leases. A row goes when the session ends; a path session without a row here is interrupted.
CREATE TABLE sessions (
    id      INTEGER PRIMARY KEY,
    purpose INTEGER NOT NULL, -- 0 read, 1 write, 2 path; negative: of the client of a node with these lower 63 bits
    epoch   INTEGER NOT NULL,
    end_ns  INTEGER NOT NULL -- by the lease clock (clock.rs), not in nanoseconds: the name is older than that clock
) STRICT;

-- A row describes a logical number (state, physical, referred_sequence, moved_epoch) and of the file that was
-- made with that number (stored_bytes, segments, left_epoch, file_gone). Rows are never deleted.
CREATE TABLE containers (
    id                INTEGER PRIMARY KEY,
    state             INTEGER NOT NULL,           -- 0 open, 1 live, 2 condemned, 3 gone
    physical          INTEGER NOT NULL,           -- whose file holds its segments
    opener            INTEGER,                    -- the session that has it open
    referred_sequence INTEGER NOT NULL DEFAULT 0, -- `referral` of the last transaction that refers to it
    moved_epoch       INTEGER NOT NULL DEFAULT 0, -- when its segments last moved to another file
    stored_bytes      INTEGER NOT NULL,
    segments          INTEGER NOT NULL,
    left_epoch        INTEGER NOT NULL DEFAULT 0, -- when a number last left this file, condemned or moved
    file_gone         INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX containers_by_opener ON containers (opener) WHERE opener IS NOT NULL;
CREATE INDEX containers_by_file ON containers (physical);
CREATE INDEX containers_with_file ON containers (id) WHERE file_gone = 0;

-- The files that a number's segments have moved away from, until they are deleted: sessions that are older than the
-- move may hold addresses of segments that were left behind there.
CREATE TABLE left_files (
    container  INTEGER NOT NULL,
    physical   INTEGER NOT NULL,
    left_epoch INTEGER NOT NULL,
    PRIMARY KEY (container, physical)
) STRICT, WITHOUT ROWID;
CREATE INDEX left_files_by_file ON left_files (physical);

-- Segments that could not be read at the place that manifests name.
CREATE TABLE lost_segments (
    container      INTEGER NOT NULL,
    ordinal        INTEGER NOT NULL,
    fingerprint    BLOB NOT NULL, -- all zeros when the container's index was lost too
    copy_container INTEGER,       -- where the same content was stored again
    copy_ordinal   INTEGER,
    PRIMARY KEY (container, ordinal)
) STRICT, WITHOUT ROWID;

-- Every name by its whole path: what lies below a directory is a range of keys (see subtree.rs).
CREATE TABLE names (
    path BLOB PRIMARY KEY,
    file INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE files (
    id           INTEGER PRIMARY KEY,
    kind         INTEGER NOT NULL,
    links        INTEGER NOT NULL,           -- names that point here; a file without any is deleted
    last_version INTEGER NOT NULL DEFAULT 0, -- number of the newest version; numbers are not given again
    head         INTEGER,                    -- row of the newest version
    attributes   BLOB NOT NULL
) STRICT;

-- Rows are numbered as they come: the cursor of a collection that marks from them.
CREATE TABLE versions (
    id           INTEGER PRIMARY KEY,
    file         INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    committed_ns INTEGER NOT NULL,
    size         INTEGER NOT NULL,
    content      BLOB,
    root         BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX versions_by_number ON versions (file, number);

-- Transactions that no container keeps yet.
CREATE TABLE journal (
    sequence INTEGER PRIMARY KEY,
    record   BLOB NOT NULL
) STRICT;

CREATE TABLE path_sessions (
    id           INTEGER PRIMARY KEY,
    path         BLOB NOT NULL,
    nodes        BLOB NOT NULL,
    stripe_bytes INTEGER NOT NULL,
    job          TEXT NOT NULL,
    opened_ns    INTEGER NOT NULL,
    handles      INTEGER NOT NULL,
    state        INTEGER NOT NULL DEFAULT 0 -- 1: superseded, 2: the name was removed
) STRICT;
CREATE INDEX path_sessions_by_path ON path_sessions (path);

CREATE TABLE stripe_owners (
    session     INTEGER NOT NULL,
    stripe_set  INTEGER NOT NULL,
    owner       INTEGER NOT NULL,
    last_number INTEGER NOT NULL, -- the last its owner may no longer give: used by a checkpoint or a taking
    PRIMARY KEY (session, stripe_set)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    id         INTEGER PRIMARY KEY,
    session    INTEGER NOT NULL,
    stripe_set INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    owner      INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    root       BLOB NOT NULL,
    resized    INTEGER NOT NULL,
    -- Counted lists, little-endian: (client u64, stream u32, sequence u64), then (offset u64, length u64, stamp u64).
    arrivals   BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX checkpoints_by_stripe_set ON checkpoints (session, stripe_set, number);
