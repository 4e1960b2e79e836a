-- How many tasks this database has accepted from callers (what came and went with partitions, or was corrected, is counted
-- under negative slots), and what was measured last: when (ms), how many there were then, tasks an hour at
-- most and on a day's average. None: nothing was measured yet. At last how many buckets are wider than they should be.
SELECT
    (SELECT CAST(COALESCE(SUM(value), 0) AS SIGNED) FROM counters WHERE name = 'accepted' AND slot >= 0),
    (SELECT value FROM meta WHERE name = 'rate_at'),
    (SELECT value FROM meta WHERE name = 'rate_inserted'),
    (SELECT value FROM meta WHERE name = 'rate_peak'),
    (SELECT value FROM meta WHERE name = 'rate_mean'),
    (SELECT value FROM meta WHERE name = 'buckets_wide')
