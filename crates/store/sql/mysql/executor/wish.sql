-- Says what is wished of an executor. 1 wish, 2 namespace, 3 name.
UPDATE executor SET wish = ? WHERE namespace = ? AND name = ? AND gone <> 2
