"""Telling the person at this machine that a task waits for them, where there is a desktop to tell it on."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from agent_fleet.text import line

_SECONDS = 5.0
_APPLESCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


def order(platform: str, environ: Mapping[str, str], title: str, text: str) -> tuple[str, ...] | None:
    """The command that shows a notification, or None where nobody would see one or `FLEET_NO_NOTIFY` is set.

    Linux: notify-send(1), whose body is markup (Desktop Notifications Specification). macOS: osascript(1).
    """
    if environ.get("FLEET_NO_NOTIFY"):
        return None
    title, text = line(title, 80), line(text, 200)
    if platform == "darwin":
        script = [part for row in _APPLESCRIPT for part in ("-e", row)]
        return ("osascript", *script, title, text)
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    body = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return ("notify-send", "--app-name=fleet", "--", title, body)


def show(command: tuple[str, ...], environ: Mapping[str, str]) -> None:
    """Show it. That it cannot be shown is no news: the task waits in `fleet blocked` all the same."""
    try:
        subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        pass
