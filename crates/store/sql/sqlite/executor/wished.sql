-- What is wished of an executor. ?1 namespace, ?2 name.
SELECT wish FROM executor WHERE namespace = ?1 AND name = ?2 AND gone <> 2
