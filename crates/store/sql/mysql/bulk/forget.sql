-- Forgets an operation with its failures, if it is not at work. In the catalog. 1 id.
DELETE bulk, bulk_failure FROM bulk LEFT JOIN bulk_failure ON bulk_failure.bulk_id = bulk.id
WHERE bulk.id = ? AND bulk.state IN (1, 4, 5)
