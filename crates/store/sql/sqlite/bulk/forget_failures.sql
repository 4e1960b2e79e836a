-- Forgets the failures of an operation. ?1 bulk.
DELETE FROM bulk_failure WHERE bulk_id = ?1
