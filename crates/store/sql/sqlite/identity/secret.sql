-- The secret that was offered first.
SELECT secret FROM identity_secret WHERE id = 1
