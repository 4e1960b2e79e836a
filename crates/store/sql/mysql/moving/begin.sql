-- A new move. 1 partition, 2 from, 3 to (databases), 4 term.
INSERT INTO partition_move (partition_no, from_shard, to_shard, step, term, closed_until) VALUES (?, ?, ?, 1, ?, 0)
