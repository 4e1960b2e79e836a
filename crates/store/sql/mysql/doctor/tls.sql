-- How this connection is encrypted (no cipher: not at all), and until when the server's certificate holds: name, value.
SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher', 'Ssl_version', 'Ssl_server_not_after')
