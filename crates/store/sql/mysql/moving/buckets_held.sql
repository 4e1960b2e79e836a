-- 1: this connection still has the lock of bucket/alone.sql, and so had it all the time.
SELECT CAST(COALESCE(IS_USED_LOCK(CONCAT('punctual ', SHA1(DATABASE()))) = CONNECTION_ID(), 0) AS SIGNED)
