-- After a read: which of these partitions this database still has, so that the read was of the right place.
-- 1 partitions (JSON: array of numbers).
SELECT hosted.partition_no
FROM JSON_TABLE(?, '$[*]' COLUMNS (partition_no INT PATH '$')) AS wanted
STRAIGHT_JOIN hosted ON hosted.partition_no = wanted.partition_no AND hosted.state IN (1, 2)
