"""Makes the synchronous client (``punctual._sync``) of the asynchronous one, so that both are the same. A test
compares. Run it after a change below ``punctual/_async``: ``python tools/make_sync.py``."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "punctual" / "_async"
TARGET = SOURCE.parent / "_sync"

WORDS = [
    (r"\bfrom asyncio import sleep\b", "from time import sleep"),
    (r"\basync def\b", "def"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\b_async\b", "_sync"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bhttpx\.AsyncClient\b", "httpx.Client"),
    (r"\bAsync([A-Z])", r"\1"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
]
HEAD = '"""The synchronous client. Made by ``tools/make_sync.py`` of ``punctual._async``; edit that."""\n'


def sync_of(text: str) -> str:
    """A module in its synchronous form."""
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return text


def made() -> dict[Path, str]:
    """Each file below ``_sync``, and what it must be."""
    files = {TARGET / "__init__.py": HEAD}
    for path in sorted(SOURCE.glob("*.py")):
        if path.name != "__init__.py":
            files[TARGET / path.name] = sync_of(path.read_text())
    return files


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for path, text in made().items():
        path.write_text(text)
