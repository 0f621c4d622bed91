"""Whether a display is there and answers: one message to its server, and one back."""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Mapping

_PATIENCE = 3.0  # seconds that a display server has to answer


def x11_obstacle(environ: Mapping[str, str]) -> str:
    """Why X11 cannot be used, or an empty text. A server that refuses us answers all the same; its clients say why."""
    display = environ.get("DISPLAY", "")
    if not display:
        return "DISPLAY is not set"
    # the start of a connection in the byte order of this machine, X11 protocol 11.0, with no authorization
    hello = struct.pack("=BxHHHHxx", 0x42 if struct.pack("=H", 1) == struct.pack(">H", 1) else 0x6C, 11, 0, 0, 0)
    for address in _x11_addresses(display):
        if _answers(address, hello):
            return ""
    return f"the X11 display {display} does not answer"


def wayland_obstacle(environ: Mapping[str, str]) -> str:
    """Why Wayland cannot be used, or an empty text."""
    display = environ.get("WAYLAND_DISPLAY", "")
    if not display:
        return "WAYLAND_DISPLAY is not set"
    path = os.path.join(environ.get("XDG_RUNTIME_DIR", ""), display)
    hello = struct.pack("=III", 1, 12 << 16, 2)  # wl_display.sync, whose answer is the event `done` of object 2
    return "" if _answers(path, hello) else f"the Wayland display {display} does not answer"


def _x11_addresses(display: str) -> list[str | tuple[str, int]]:
    found = re.fullmatch(r"(?:unix|([^:/]*)(?:/unix)?):(\d+)(?:\.\d+)?", display)
    if not found:
        return [display.rpartition(":")[0]] if display.startswith("/") else []
    host, number = found[1] or "", int(found[2])
    if host:
        return [(host, 6000 + number)]
    path = f"/tmp/.X11-unix/X{number}"  # noqa: S108  where every X server listens
    return ["\0" + path, path]


def _answers(address: str | tuple[str, int], hello: bytes) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as server:
            server.settimeout(_PATIENCE)
            server.connect(address)
            server.sendall(hello)
            return bool(server.recv(1))
    except (OSError, ValueError):
        return False
