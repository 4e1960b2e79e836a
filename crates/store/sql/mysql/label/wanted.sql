-- The queues that have declared labels, with all that is set for them. In the catalog; the caller reads the JSON.
SELECT namespace, queue, body FROM setting WHERE queue <> '' AND INSTR(body, '"indexed_labels":[') > 0
