-- From one step to another, unless somebody else went on. 1 term, 2 step, 3 partition, 4 the term and 5 the step as
-- they were.
UPDATE partition_move SET term = ?, step = ? WHERE partition_no = ? AND term = ? AND step = ?
