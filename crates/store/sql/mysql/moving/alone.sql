-- 1: no other mover works on this cluster as long as this connection lasts. In the catalog. Waits a few seconds: the server
-- may not have noticed yet that the one before is gone. The comments: as in bucket/alone.sql.
SELECT CAST(GET_LOCK(CONCAT('punctual move ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
), 5) AS SIGNED)
