-- Cuts a bucket; the line with the name once for each piece. Copies the rows that are in it while nobody writes: few.
-- Braces: bucket, name, ends_at (ms, exclusive, or MAXVALUE).
ALTER TABLE task REORGANIZE PARTITION {bucket} INTO (
    PARTITION {name} VALUES LESS THAN ({ends_at})
)
