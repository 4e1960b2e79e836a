-- Waits until nobody else migrates this database. It is freed when the connection ends. 1 how long to wait (s).
-- Answers 1, or 0 when the time was over.
SELECT GET_LOCK(CONCAT('punctual/', LEFT(SHA2(DATABASE(), 256), 40)), ?)
