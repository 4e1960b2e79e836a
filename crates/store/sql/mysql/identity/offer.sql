-- Keeps a secret, if there is none. In the catalog. 1 the secret.
INSERT IGNORE INTO identity_secret (id, secret) VALUES (1, ?)
