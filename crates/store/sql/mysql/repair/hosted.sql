-- The partitions of this database as it knows them: number, state, term.
SELECT partition_no, state, term FROM hosted ORDER BY partition_no
