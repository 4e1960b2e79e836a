-- One row: all that are dead here are entered.
SELECT 1 FROM indexed_label WHERE namespace = '' AND queue = '' AND label = 'dead' AND below_id IS NULL
