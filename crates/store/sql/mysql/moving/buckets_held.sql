-- 1: this connection still has the lock of bucket/alone.sql, and so had it all the time.
SELECT CAST(COALESCE(IS_USED_LOCK(CONCAT('punctual ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
)) = CONNECTION_ID(), 0) AS SIGNED)
