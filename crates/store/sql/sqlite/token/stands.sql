-- The revision of a token. ?1 id.
SELECT revision FROM token WHERE id = ?1
