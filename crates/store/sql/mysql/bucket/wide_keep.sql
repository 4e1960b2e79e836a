-- How many buckets are wider than they should be, and cannot be cut. 1 how many.
INSERT INTO meta (name, value)
VALUES ('buckets_wide', ?)
ON DUPLICATE KEY UPDATE value = VALUES(value)
