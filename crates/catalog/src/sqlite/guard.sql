-- These columns and triggers distinguish this catalog from an older copy, from another store's, and from one that
-- another program changed. Added to the tables of schema.sql by format 3 (`PRAGMA user_version`).

-- 1 while one of our transactions runs; other connections always read 0.
ALTER TABLE counters ADD COLUMN writing INTEGER NOT NULL DEFAULT 0;
-- Rows that were changed while `writing` was 0: by hand, by another program.
ALTER TABLE counters ADD COLUMN foreign_changes INTEGER NOT NULL DEFAULT 0;
-- The id of the store this catalog belongs to.
ALTER TABLE counters ADD COLUMN store BLOB;

CREATE TRIGGER counters_guard AFTER UPDATE OF sequence, epoch, session, container, versioned, unversioned ON counters
WHEN old.writing = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;

CREATE TRIGGER containers_added AFTER INSERT ON containers
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER containers_changed AFTER UPDATE ON containers
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER containers_deleted AFTER DELETE ON containers
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;

CREATE TRIGGER names_added AFTER INSERT ON names
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER names_changed AFTER UPDATE ON names
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER names_deleted AFTER DELETE ON names
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;

CREATE TRIGGER files_added AFTER INSERT ON files
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER files_changed AFTER UPDATE ON files
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER files_deleted AFTER DELETE ON files
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;

CREATE TRIGGER versions_added AFTER INSERT ON versions
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER versions_changed AFTER UPDATE ON versions
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER versions_deleted AFTER DELETE ON versions
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;

-- The outbox and checkpoints hold what was acknowledged; no row of the outbox is ever changed.
CREATE TRIGGER journal_deleted AFTER DELETE ON journal
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER left_files_deleted AFTER DELETE ON left_files
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
CREATE TRIGGER checkpoints_deleted AFTER DELETE ON checkpoints
WHEN (SELECT writing FROM counters) = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
