-- 1: nobody else changes the buckets of this database as long as this connection lasts. Changes of the table run on the
-- same connection, so none of them can come after the lock is gone. Server-wide names, hence the database's. MySQL has no
-- SHA1 from 9.6 on: there the comments are read, and what stands between them is a text; everybody else passes over them.
SELECT CAST(GET_LOCK(CONCAT('punctual ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
), 0) AS SIGNED)
