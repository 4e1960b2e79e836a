-- One row: there are tasks to enter that stood before. None of them is looked at.
SELECT 1 FROM indexed_label WHERE below_id IS NOT NULL LIMIT 1
