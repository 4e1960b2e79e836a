-- Adds to a counter, in the transaction that makes it true. ?1 key, ?2 how many.
UPDATE meta SET value = value + ?2 WHERE key = ?1
