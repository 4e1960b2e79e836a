-- How many tasks this database has accepted, and what was measured last: when (ms), how many there were then, tasks an hour at
-- most and on a day's average. None: nothing was measured yet.
SELECT
    (SELECT CAST(COALESCE(SUM(value), 0) AS SIGNED) FROM counters WHERE name = 'accepted'),
    (SELECT value FROM meta WHERE name = 'rate_at'),
    (SELECT value FROM meta WHERE name = 'rate_accepted'),
    (SELECT value FROM meta WHERE name = 'rate_peak'),
    (SELECT value FROM meta WHERE name = 'rate_mean')
