-- Adds to counters, in the transaction that makes it true. For each row: 1 slot, 2 name, 3 how many more.
INSERT INTO counters (slot, name, value)
VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE value = value + VALUES(value)
