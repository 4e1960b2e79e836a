-- Gives a reservation up. 1 namespace, 2 key (bytes), 3 owner (bytes).
DELETE FROM reply WHERE namespace = ? AND reply_key = ? AND status = 0 AND body = ?
