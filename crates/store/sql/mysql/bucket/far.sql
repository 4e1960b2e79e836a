-- What stands beyond the last bucket: how many rows, and the latest of them (ms). Looks at no more than a bound.
-- Parameters: end of the last bucket (ms), bound.
SELECT COUNT(*), CAST(MAX(due_at) AS SIGNED)
FROM (SELECT due_at FROM task WHERE due_at >= ? LIMIT ?) far
