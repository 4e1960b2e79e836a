-- 1: nobody else counts the payloads of this database as long as this connection lasts. Two at once would do no harm, but
-- read everything twice. Server-wide names, hence the database's. The comments: as in bucket/alone.sql.
SELECT CAST(GET_LOCK(CONCAT('punctual count ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
), 0) AS SIGNED)
