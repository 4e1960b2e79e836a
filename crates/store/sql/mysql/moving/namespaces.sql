-- Whose replies are here.
SELECT DISTINCT CAST(namespace AS CHAR) FROM reply
