"""Settings of a client: arguments before the environment before defaults, checked before anything is sent."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from punctual._durations import Duration, to_seconds
from punctual.errors import ConfigurationError
from punctual.version import VERSION

DEFAULT_URL = "http://127.0.0.1:7450"
MISSING = "\0missing"
"""A parameter that was not given: the environment has it, or the default."""


@dataclass(frozen=True)
class Settings:
    """What clients, synchronous or not, are made of."""

    bases: tuple[str, ...]
    headers: dict[str, str] = field(repr=False)
    namespace: str
    connect_timeout: float
    request_timeout: float
    tries: int
    verify: ssl.SSLContext | bool


def settings(
    url: str | None = None,
    *,
    token: str | None = MISSING,
    namespace: str | None = None,
    connect_timeout: Duration = 2,
    request_timeout: Duration = 10,
    tries: int = 5,
    ca_file: str | None = MISSING,
    client_certificate: tuple[str, str] | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> Settings:
    """From the parameters of a client."""
    bases = tuple(_base(part.strip()) for part in (url or _environment("PUNCTUAL_URL") or DEFAULT_URL).split(","))
    token = _environment("PUNCTUAL_TOKEN") if token == MISSING else token
    ca_file = _environment("PUNCTUAL_CA_FILE") if ca_file == MISSING else ca_file
    verify: ssl.SSLContext | bool = True
    if any(base.startswith("https:") for base in bases):
        verify = ssl_context or _tls(ca_file, client_certificate or _certificate_of_environment())
    if tries < 1:
        raise ConfigurationError("tries must be at least 1")
    return Settings(
        bases=bases,
        headers=_headers(token, namespace),
        namespace=namespace or "default",
        connect_timeout=to_seconds(connect_timeout),
        request_timeout=to_seconds(request_timeout),
        tries=tries,
        verify=verify,
    )


def _environment(name: str) -> str | None:
    return os.environ.get(name) or None


def _base(url: str) -> str:
    """An address without a trailing slash."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and not parts.query and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(
            f"url {url!r}: must be http://host:port or https://host:port, several with commas between"
        )
    return url.rstrip("/")


def _headers(token: str | None, namespace: str | None) -> dict[str, str]:
    headers = {"User-Agent": f"punctual-python/{VERSION}"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if namespace:
        headers["Punctual-Namespace"] = namespace
    for name, value in headers.items():
        if not all(" " <= letter <= "~" for letter in value):
            raise ConfigurationError(f"the value for header {name} has characters that no header can carry")
    return headers


def _certificate_of_environment() -> tuple[str, str] | None:
    certificate, key = _environment("PUNCTUAL_CLIENT_CERT"), _environment("PUNCTUAL_CLIENT_KEY")
    if certificate and key:
        return certificate, key
    if certificate or key:
        raise ConfigurationError(
            "a client certificate and its key go together: PUNCTUAL_CLIENT_CERT, PUNCTUAL_CLIENT_KEY"
        )
    return None


def _tls(ca_file: str | None, certificate: tuple[str, str] | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{ca_file} has no certificate in PEM that can be read: {error}") from error
    if certificate:
        try:
            context.load_cert_chain(*certificate)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"{', '.join(certificate)}: no certificate and its key in PEM: {error}") from error
    return context
