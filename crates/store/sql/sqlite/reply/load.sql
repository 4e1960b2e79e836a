-- An answer whose time is not over; a reservation (status 0) is none. ?1 namespace, ?2 key, ?3 now (ms).
SELECT request_hash, status, body, keep_until FROM reply WHERE namespace = ?1 AND key = ?2 AND status <> 0 AND keep_until > ?3
