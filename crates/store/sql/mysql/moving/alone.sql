-- 1: no other mover works on this cluster as long as this connection lasts. In the catalog. Waits a few seconds: the server
-- may not have noticed yet that the one before is gone.
SELECT CAST(GET_LOCK(CONCAT('punctual move ', LEFT(SHA1(DATABASE()), 40)), 5) AS SIGNED)
