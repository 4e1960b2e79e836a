-- Says what is wished of an executor. ?1 namespace, ?2 name, ?3 wish.
UPDATE executor SET wish = ?3 WHERE namespace = ?1 AND name = ?2 AND gone <> 2
