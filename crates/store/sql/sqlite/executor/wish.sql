-- Says what is wished of an executor, in the place of what is. ?1 namespace, ?2 name, ?3 wish, ?4 wish that stands.
UPDATE executor SET wish = ?3 WHERE namespace = ?1 AND name = ?2 AND gone <> 2 AND wish = ?4
