-- A line of history. ?1 revision, ?2 namespace, ?3 queue, ?4 body (JSON, NULL: removed), ?5 now (ms), ?6 by whom.
INSERT INTO setting_change (revision, namespace, queue, body, changed_at, changed_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
