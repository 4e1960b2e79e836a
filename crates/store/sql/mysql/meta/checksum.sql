-- The checksum of a migration's text, by which it is recorded. 1 text.
SELECT CAST(SHA2(?, 256) AS CHAR)
