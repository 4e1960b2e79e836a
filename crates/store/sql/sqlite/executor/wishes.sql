-- What is wished of executors, where it is more than to serve.
SELECT namespace, name, wish FROM executor WHERE wish <> 0 AND gone <> 2
