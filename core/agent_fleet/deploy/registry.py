"""The MCP registry over HTTP: all its pages, by cursor, kept as a mirror with its time; offline that is used, and said.

The answer of `GET /v0/servers` is `{"servers": […], "metadata": {"nextCursor": …}}`; the next page is asked for by `?cursor=`.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import os
import time
import urllib.error
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, make_directory, read_json, write_whole
from agent_fleet.text import duration

MOST_BYTES = 32 << 20  # of all pages together
MOST_PAGES = 500
FRESH = 86400.0  # seconds for which a mirror is used without asking again
_TIMEOUT = 20.0
_HINT = "mend deploy.registry, or name a file there"


class Mirror(NamedTuple):
    """What a registry lists, and what a person should know of how that was got."""

    servers: list[Any]
    notes: tuple[str, ...] = ()


def is_address(registry: str) -> bool:
    """Whether a registry is reached by HTTP; else it is a file."""
    return "://" in registry


def mirror(address: str, state: str, *, clock: Callable[[], float] = time.time) -> Mirror:
    """The servers of a registry. Raises FleetError: `bad_input` for an address that may not be asked, `unavailable` where nothing
    answers and there is no mirror of it.
    """
    allowed(address)
    place = os.path.join(state, "registry", f"{hashlib.sha256(address.encode()).hexdigest()[:24]}.json")
    servers, fetched = _kept(place, address)
    age = clock() - fetched
    if servers is not None and 0 <= age < FRESH:
        return Mirror(servers)
    try:
        found = _fetched(address)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        if servers is None:
            raise FleetError("unavailable", f"the registry {address} cannot be read: {why}", hint=_HINT) from None
        note = f"the registry {address} cannot be read ({why}): its copy of {duration(max(0.0, age))} ago is used"
        return Mirror(servers, (note,))
    make_directory(os.path.dirname(place))
    told = {"address": address, "fetched": round(clock(), 3), "servers": found}
    write_whole(place, json.dumps(told).encode() + b"\n")
    return Mirror(found)


def allowed(address: str) -> None:
    """Raise `bad_input` for an address that is neither https nor on this machine."""
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and _is_loopback(parts.hostname or ""):
        return
    raise FleetError("bad_input", f"the registry {address} is neither https nor on this machine", hint=_HINT)


class _Redirects(HTTPRedirectHandler):
    """Follows redirects to where one may ask, and no others."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        try:
            allowed(newurl)
        except FleetError as error:
            fp.close()
            raise urllib.error.URLError(error.message) from None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetched(address: str) -> list[Any]:
    """All pages. Raises OSError, ValueError, HTTPException."""
    opener = build_opener(_Redirects())
    servers: list[Any] = []
    left, cursor, seen = MOST_BYTES, "", set()
    for _ in range(MOST_PAGES):
        request = Request(_page(address, cursor), headers={"Accept": "application/json"})  # noqa: S310 - checked above
        with opener.open(request, timeout=_TIMEOUT) as answer:
            data = answer.read(left + 1)
        left -= len(data)
        if left < 0:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
        page = json.loads(data)
        listed = page.get("servers") if isinstance(page, dict) else None
        if not isinstance(listed, list):
            raise ValueError("its answer has no list of servers")
        servers += listed
        more = page.get("metadata")
        cursor = (more.get("nextCursor") or more.get("next_cursor") or "") if isinstance(more, dict) else ""
        if not cursor:
            return servers
        if not isinstance(cursor, str) or cursor in seen:
            raise ValueError("its pages go round in circles")
        seen.add(cursor)
    raise ValueError(f"it has more than {MOST_PAGES} pages")


def _page(address: str, cursor: str) -> str:
    parts = urlsplit(address)
    query = [each for each in parse_qsl(parts.query, keep_blank_values=True) if each[0] != "cursor"]
    return urlunsplit(parts._replace(query=urlencode([*query, *([("cursor", cursor)] if cursor else [])]), fragment=""))


def _kept(place: str, address: str) -> tuple[list[Any] | None, float]:
    """What the mirror holds, and from when; None if there is none that can be used."""
    try:
        found = read_json(place)
    except (BadFileError, FileNotFoundError):
        return None, 0.0
    servers, fetched = found.get("servers"), found.get("fetched")
    if found.get("address") != address or not isinstance(servers, list) or not isinstance(fetched, int | float):
        return None, 0.0
    return servers, float(fetched)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
