"""Where a model is asked, as a name: the same for two spellings of one address, and without what may be a secret."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}


def endpoint(url: str) -> str:
    """Scheme, host, port where it is not the usual one, and path of an address. User, password, query and fragment are left out.

    Raises ValueError for what is no address.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{name}{port}{parts.path.rstrip('/')}"
