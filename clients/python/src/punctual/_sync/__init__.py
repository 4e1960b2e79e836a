"""The synchronous client. Made by ``tools/make_sync.py`` of ``punctual._async``; edit that."""
