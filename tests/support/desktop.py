"""A display of one's own with a window manager, and a record of every key that is pressed on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.procs import wait_until

NEEDED = ("Xvfb", "openbox", "xdotool", "xterm")

# Sees the events of every client and of XTEST, as the server makes them; ends when its display does.
_RECORDER = """
import sys
from Xlib import X, display
from Xlib.ext import record
from Xlib.protocol import rq
control, data = display.Display(), display.Display()
fields = dict.fromkeys(("core_requests", "core_replies", "delivered_events", "device_events", "errors"), (0, 0))
ranges = {**fields, "device_events": (X.KeyPress, X.KeyRelease), "ext_requests": (0, 0, 0, 0), "ext_replies": (0, 0, 0, 0),
          "client_started": False, "client_died": False}
context = control.record_create_context(0, [record.AllClients], [ranges])
control.sync()
def note(reply):
    rest = reply.data
    if reply.category == record.StartOfData:
        print("ready", flush=True)
    while reply.category == record.FromServer and len(rest):
        event, rest = rq.EventField(None).parse_binary_value(rest, data.display, None, None)
        print(event.type, event.detail, event.state, flush=True)
data.record_enable_context(context, note)
"""

# Asks a window to close, as the button in its frame does.
_CLOSER = """
import sys
from Xlib import X, display
from Xlib.protocol import event
server = display.Display()
window = server.create_resource_object("window", int(sys.argv[1]))
what = server.intern_atom("_NET_CLOSE_WINDOW")
request = event.ClientMessage(window=window, client_type=what, data=(32, [0, 2, 0, 0, 0]))
server.screen().root.send_event(request, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
server.sync()
"""

_CODES = """
import sys
from Xlib import XK, display
server = display.Display()
print(",".join(str(code) for code, _ in server.keysym_to_keycodes(XK.string_to_keysym(sys.argv[1]))))
"""


def require(*programs: str) -> None:
    """Skip the test where a program is missing, or fail it where FLEET_REQUIRE_CLIS is set."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing and os.environ.get("FLEET_REQUIRE_CLIS") == "1":
        pytest.fail(f"{', '.join(missing)} not installed, and FLEET_REQUIRE_CLIS=1 wants it")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


class Desktop:
    """One X server with openbox; the key that was pressed to try the record is the first of its keys."""

    def __init__(self, server: subprocess.Popen[bytes], display: str, keys: Path) -> None:
        self.server = server
        self.display = display
        self._keys = keys

    @property
    def env(self) -> dict[str, str]:
        return {"DISPLAY": self.display, "XAUTHORITY": os.devnull}

    @property
    def keys(self) -> list[str]:
        """What was pressed or released on this display so far: type, code and modifiers of each event."""
        return self._keys.read_text().partition("ready\n")[2].splitlines()

    def xdotool(self, *arguments: str) -> str:
        done = subprocess.run(
            ["xdotool", *arguments], env=os.environ | self.env, capture_output=True, text=True, timeout=30, check=False
        )
        return done.stdout.strip()

    def active(self) -> str:
        return self.xdotool("getactivewindow")

    def keycodes(self, name: str) -> list[str]:
        """The codes of the keys that give a symbol."""
        answer = subprocess.run(
            [sys.executable, "-c", _CODES, name], env=os.environ | self.env, capture_output=True, text=True, check=True
        )
        return answer.stdout.split()[-1].split(",")

    def close(self, title: str) -> None:
        """Close the window of this title by the button in its frame."""
        (window,) = self.xdotool("search", "--onlyvisible", "--name", f"^{title}$").split()
        subprocess.run([sys.executable, "-c", _CLOSER, window], env=os.environ | self.env, check=True, timeout=30)

    def titles(self, pattern: str) -> list[str]:
        """The titles of the visible windows that match."""
        found = self.xdotool("search", "--onlyvisible", "--name", pattern).split()
        return sorted(self.xdotool("getwindowname", window) for window in found)


@contextmanager
def new_desktop(place: Path) -> Iterator[Desktop]:
    """A display that nobody else has, until the end of the block."""
    require(*NEEDED)
    reading, writing = os.pipe()
    with (
        open(place / "xvfb.log", "wb") as log,
        open(place / "keys", "wb") as keys,
        subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
            pass_fds=(writing,),
            stdout=log,
            stderr=log,
        ) as server,
    ):
        children: list[subprocess.Popen[bytes]] = []
        try:
            os.close(writing)
            with open(reading, "rb") as file:
                desktop = Desktop(server, f":{file.readline().decode().strip()}", place / "keys")
            env = os.environ | desktop.env
            config = place / "openbox.xml"
            config.write_text('<openbox_config xmlns="http://openbox.org/3.4/rc"/>')
            for argv in (["openbox", "--config-file", str(config)], [sys.executable, "-c", _RECORDER]):
                out = keys if argv[0] == sys.executable else log
                children.append(subprocess.Popen(argv, env=env, stdout=out, stderr=log, stdin=subprocess.DEVNULL))
            wait_until(lambda: "ready" in (place / "keys").read_text(), "key events are recorded")
            wait_until(lambda: desktop.xdotool("get_num_desktops").isdigit(), "the window manager runs")
            desktop.xdotool("key", "a")
            wait_until(lambda: len(desktop.keys) == 2, "a key that is pressed is seen")
            yield desktop
        finally:
            for child in (*children, server):
                child.terminate()
            for child in children:
                _end(child)
            _end(server)


@contextmanager
def window(desktop: Desktop, title: str) -> Iterator[str]:
    """A window that the person works in, with their attention on it."""
    with subprocess.Popen(["xterm", "-T", title, "-e", "sleep", "600"], env=os.environ | desktop.env) as child:
        try:
            wait_until(lambda: desktop.titles(f"^{title}$"), f"the window {title}")
            (found,) = desktop.xdotool("search", "--onlyvisible", "--name", f"^{title}$").split()
            desktop.xdotool("windowactivate", found)
            wait_until(lambda: desktop.active() == found, f"{title} is active")
            yield found
        finally:
            child.terminate()


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(timeout=10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def settled(desktop: Desktop, seconds: float = 0.5) -> str:
    """The active window, once it has not changed for a while."""
    found, since = desktop.active(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.05)
        if (now := desktop.active()) != found:
            found, since = now, time.monotonic()
    return found
