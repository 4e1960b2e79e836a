-- 1: nobody else changes the buckets of this database as long as this connection lasts. Changes of the table run on the
-- same connection, so none of them can come after the lock is gone. Server-wide names, hence the database's.
SELECT CAST(GET_LOCK(CONCAT('punctual ', SHA1(DATABASE())), 0) AS SIGNED)
