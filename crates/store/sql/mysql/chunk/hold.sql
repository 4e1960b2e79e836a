-- The same, held to the end of the transaction.
SELECT value FROM meta WHERE name = 'chunks_below' FOR UPDATE
