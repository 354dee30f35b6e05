-- Which transaction made this catalog what it is. Added to the tables of schema.sql by format 6 (`PRAGMA user_version`).

-- Counts every transaction that writes, from the nanoseconds since 1970 when the catalog was made on: no transaction of
-- another catalog of the store, made earlier, has such a number. Also read straight from the file and from the log
-- (beginnings.rs), which decides whether they belong together.
ALTER TABLE counters ADD COLUMN transactions INTEGER NOT NULL DEFAULT 0;
-- What `transactions` was before the last transaction.
ALTER TABLE counters ADD COLUMN transactions_before INTEGER NOT NULL DEFAULT 0;
-- Transactions that refer to containers; until format 6 these took their numbers from `sequence`.
ALTER TABLE counters ADD COLUMN referral INTEGER NOT NULL DEFAULT 0;
UPDATE counters SET referral = sequence;

CREATE TRIGGER referral_guard AFTER UPDATE OF referral ON counters
WHEN old.writing = 0 BEGIN UPDATE counters SET foreign_changes = foreign_changes + 1; END;
