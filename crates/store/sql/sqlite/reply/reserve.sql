-- Takes a key for a request that is being worked on (status 0), unless an answer stands there, or another's reservation,
-- whose time is not over. Said again by the same owner it lasts longer.
-- ?1 namespace, ?2 key, ?3 request_hash (as signed), ?4 owner (bytes), ?5 reserved until (ms), ?6 now (ms).
INSERT INTO reply (namespace, key, request_hash, status, body, keep_until) VALUES (?1, ?2, ?3, 0, ?4, ?5)
ON CONFLICT (namespace, key) DO UPDATE SET
    request_hash = excluded.request_hash, status = 0, body = excluded.body, keep_until = excluded.keep_until
WHERE keep_until <= ?6 OR (status = 0 AND body = excluded.body)
