-- What this database enters, as of the epoch that this transaction holds.
SELECT namespace, queue, label FROM indexed_label WHERE queue <> ''
