-- Sets what a scope has. ?1 namespace, ?2 queue, ?3 revision, ?4 body (JSON), ?5 paused (0 or 1), ?6 now (ms), ?7 by whom.
INSERT OR REPLACE INTO setting (namespace, queue, revision, body, paused, updated_at, updated_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
