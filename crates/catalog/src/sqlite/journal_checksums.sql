-- Which journal records are this catalog's own. Added to the tables of schema.sql by format 5 (`PRAGMA user_version`).

-- Of every record that this catalog wrote or was made from, also of those that containers keep.
CREATE TABLE journal_checksums (
    sequence INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (sequence, checksum)
) STRICT, WITHOUT ROWID;

-- Records up to this one are older than the table.
ALTER TABLE counters ADD COLUMN unchecked_sequence INTEGER NOT NULL DEFAULT 0;
UPDATE counters SET unchecked_sequence = sequence;
