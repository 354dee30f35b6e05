-- The handles of paths' sessions, by the digests of their keys. Added to the tables of schema.sql by format 7
-- (`PRAGMA user_version`). A handle that was taken off stays as long as its session: its key let in whoever has it, and
-- taking it off again changes nothing.
CREATE TABLE path_handles (
    session INTEGER NOT NULL,
    key     BLOB NOT NULL,
    is_left INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
