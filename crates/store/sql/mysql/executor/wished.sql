-- What is wished of an executor. 1 namespace, 2 name.
SELECT wish FROM executor WHERE namespace = ? AND name = ? AND gone <> 2
