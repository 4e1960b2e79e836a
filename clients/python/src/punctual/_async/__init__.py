"""The asynchronous client. ``punctual._sync`` is made of these files by ``tools/make_sync.py``; edit only these."""
