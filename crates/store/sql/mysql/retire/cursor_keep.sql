-- How far retention came. For each row: 1 name, 2 value.
INSERT INTO meta (name, value)
VALUES (?, ?)
ON DUPLICATE KEY UPDATE value = VALUES(value)
