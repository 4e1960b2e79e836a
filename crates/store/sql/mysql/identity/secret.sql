-- The secret that was offered first. In the catalog.
SELECT secret FROM identity_secret WHERE id = 1
