-- What was measured. 1 when (ms), 2 accepted until then, 3 tasks an hour at most, 4 on a day's average.
INSERT INTO meta (name, value)
VALUES ('rate_at', ?), ('rate_inserted', ?), ('rate_peak', ?), ('rate_mean', ?)
ON DUPLICATE KEY UPDATE value = VALUES(value)
