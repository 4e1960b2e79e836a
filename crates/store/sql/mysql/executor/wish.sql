-- Says what is wished of an executor, in the place of what is. 1 wish, 2 namespace, 3 name, 4 wish that stands.
UPDATE executor SET wish = ? WHERE namespace = ? AND name = ? AND gone <> 2 AND wish = ?
