-- The dead are entered in `lookup`, too, from here on by the moves that bury them. Those that are dead already are entered by
-- whoever enters labels: under this name, which no queue has.
INSERT IGNORE INTO indexed_label (namespace, queue, label, begun_id, below_id)
SELECT '', '', 'dead', COALESCE(MAX(id), 0) + 1, MAX(id) + 1 FROM registry;
