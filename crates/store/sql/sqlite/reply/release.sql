-- Gives a reservation up. ?1 namespace, ?2 key, ?3 owner (bytes).
DELETE FROM reply WHERE namespace = ?1 AND key = ?2 AND status = 0 AND body = ?3
