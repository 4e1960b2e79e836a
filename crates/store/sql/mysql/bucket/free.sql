-- Gives the lock of alone.sql free before the connection is closed, which the server may notice later.
DO RELEASE_LOCK(CONCAT('punctual ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
))
