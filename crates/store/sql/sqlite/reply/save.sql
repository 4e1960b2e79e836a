-- Keeps an answer. ?1 namespace, ?2 key, ?3 request_hash (as signed), ?4 HTTP status, ?5 body, ?6 keep_until (ms).
INSERT INTO reply (namespace, key, request_hash, status, body, keep_until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (namespace, key) DO UPDATE SET
    request_hash = excluded.request_hash, status = excluded.status, body = excluded.body,
    keep_until = excluded.keep_until
