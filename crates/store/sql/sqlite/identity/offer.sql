-- Keeps a secret, if there is none. ?1 the secret.
INSERT INTO identity_secret (id, secret) VALUES (1, ?1) ON CONFLICT (id) DO NOTHING
