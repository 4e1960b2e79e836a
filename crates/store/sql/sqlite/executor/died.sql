-- Marks those that fell silent; each once, so that deaths can be counted. ?1 now (ms).
UPDATE executor SET gone = 1 WHERE alive_until <= ?1 AND gone = 0
