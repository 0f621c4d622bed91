"""A small X client that does what VS Code does: its window's title and class, its tasks file, the shortcut of its build task."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.desktop import Desktop
from support.procs import wait_until

_EDITOR = """
import json, os, pty, select, sys
from Xlib import X, XK, display
sys.path[:0] = json.loads(sys.argv[2])
from agent_fleet_lanes._jsonc import parse
title, server = sys.argv[1], display.Display()
screen = server.screen()
window = screen.root.create_window(900, 500, 300, 200, 1, screen.root_depth, event_mask=X.KeyPressMask)
window.set_wm_class("code", "Code")
window.change_property(server.intern_atom("_NET_WM_PID"), server.intern_atom("CARDINAL"), 32, [os.getpid()])
window.change_property(server.intern_atom("_NET_WM_NAME"), server.intern_atom("UTF8_STRING"), 8, title.encode())
window.set_wm_name(title)
window.map()
server.flush()
terminals, b = [], server.keysym_to_keycode(XK.XK_b)

def build():
    tasks = parse(open(os.path.join(sys.argv[3], ".vscode", "tasks.json"), encoding="utf-8").read())["tasks"]
    chosen = [task for task in tasks if isinstance(task.get("group"), dict) and task["group"].get("isDefault")]
    if len(chosen) != 1:
        return  # the real one would ask the person which
    (task,) = chosen
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(task["options"]["cwd"])
        os.environ["VSCODE_PID"] = "1"
        os.execvp(task["command"], [task["command"], *task["args"]])
    terminals.append(terminal)

while True:
    ready = select.select([server, *terminals], [], [])[0]
    for terminal in [each for each in ready if each in terminals]:
        try:
            os.read(terminal, 65536)
        except OSError:
            terminals.remove(terminal)
            os.close(terminal)
    while server.pending_events():
        event = server.next_event()
        if event.type == X.KeyPress and event.detail == b and event.state & X.ControlMask and event.state & X.ShiftMask:
            build()
"""


@contextmanager
def editor(desktop: Desktop, root: Path, *, cwd: Path | None = None, folder: str = "") -> Iterator[str]:
    """The window of an editor that has `root` open; it says that its directory is called `folder`."""
    title = f"tasks.json - {folder or root.name} - Visual Studio Code"
    before = desktop.xdotool("search", "--onlyvisible", "--class", "^code$").split()
    argv = [sys.executable, "-c", _EDITOR, title, _paths(), str(root if cwd is None else cwd)]
    with subprocess.Popen(argv, env=os.environ | desktop.env, cwd=cwd or root) as child:
        try:

            def new() -> list[str]:
                found = desktop.xdotool("search", "--onlyvisible", "--class", "^code$").split()
                return [window for window in found if window not in before]

            wait_until(new, "the editor's window")
            yield new()[0]
        finally:
            child.kill()


def _paths() -> str:
    import json

    return json.dumps([path for path in sys.path if path])
