-- Every partition that ever had an owner, and how much longer it has it (ms; 0: its lease has ended).
SELECT partition_no, term, engine,
    GREATEST(held_until - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000, 0) AS left_ms
FROM owner
WHERE term > 0
ORDER BY partition_no
