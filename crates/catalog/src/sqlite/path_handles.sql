-- The handles of paths' sessions, by the digests of their keys. Added to the tables of schema.sql by format 7
-- (`PRAGMA user_version`). The row of a handle that was removed stays as long as its session: the key
-- still identifies its client, and removing the handle again changes nothing.
CREATE TABLE path_handles (
    session INTEGER NOT NULL,
    key     BLOB NOT NULL,
    is_left INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
