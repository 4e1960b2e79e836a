-- Makes buckets at the end; the line with the braces once for each. Copies the rows that are in pmax.
-- Braces: name, ends_at (ms, exclusive).
ALTER TABLE task REORGANIZE PARTITION pmax INTO (
    PARTITION {name} VALUES LESS THAN ({ends_at}),
    PARTITION pmax VALUES LESS THAN MAXVALUE
)
