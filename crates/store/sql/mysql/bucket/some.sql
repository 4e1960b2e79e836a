-- How many rows a bucket has, counted no further than a bound.
-- Parameters: its begin (ms), its end (ms, exclusive), bound.
SELECT COUNT(*) FROM (SELECT due_at FROM task WHERE due_at >= ? AND due_at < ? LIMIT ?) some
