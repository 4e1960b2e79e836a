-- Takes numbers from a counter for good: those up to the insert id that the statement answers, as many as asked.
-- 1 how many, 2 name of the counter.
UPDATE meta SET value = LAST_INSERT_ID(value + ?) WHERE name = ?
