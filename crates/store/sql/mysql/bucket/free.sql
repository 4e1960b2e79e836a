-- Gives the lock of alone.sql free before the connection is closed, which the server may notice later.
DO RELEASE_LOCK(CONCAT('punctual ', SHA1(DATABASE())))
