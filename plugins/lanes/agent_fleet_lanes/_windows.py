"""A window of a terminal emulator for each worker, opened without taking the person's attention."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent_fleet.api import Finding, FleetError, Launch, Worker, is_alive, start_detached, stop_tree
from agent_fleet_lanes._display import wayland_obstacle, x11_obstacle
from agent_fleet_lanes._doorway import Doorway
from agent_fleet_lanes._xdotool import Desktop

_BOTH = ("x11", "wayland")
_ABOVE = 8  # how many processes may be between a worker and the emulator whose window it runs in


class Emulator(NamedTuple):
    """A terminal emulator: the words before the command that it is to run, and where it can open a window.

    Each is started so that it stays until its command ends, instead of handing the command to a server of its own.
    """

    name: str
    words: tuple[str, ...]
    displays: tuple[str, ...] = _BOTH


EMULATORS = (
    Emulator("xterm", ("-T", "{title}", "-e"), ("x11",)),
    Emulator("kitty", ("--title", "{title}", "--")),
    Emulator("alacritty", ("--title", "{title}", "-e")),
    Emulator("foot", ("--title", "{title}", "--"), ("wayland",)),
    Emulator("wezterm", ("start", "--always-new-process", "--")),
    Emulator("konsole", ("--separate", "-e")),
    Emulator("gnome-terminal", ("--wait", "--title", "{title}", "--")),
    Emulator("xfce4-terminal", ("--disable-server", "--title", "{title}", "-x")),
    Emulator("mate-terminal", ("--disable-factory", "--title", "{title}", "-x")),
    Emulator("terminator", ("--no-dbus", "--title", "{title}", "-x")),
    Emulator("urxvt", ("-title", "{title}", "-e"), ("x11",)),
    Emulator("st", ("-t", "{title}", "-e"), ("x11",)),
    Emulator("x-terminal-emulator", ("-e",)),
)


class Windows:
    """`environ` is the environment of the person's session, which a window opens in."""

    name = "windows"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._desktop = Desktop(environ)

    def obstacle(self) -> str:
        displays, why = self._displays()
        if not displays:
            return why
        try:
            found = self._command("", displays)
        except ValueError as error:
            return f"FLEET_TERMINAL cannot be read: {error}"
        named = self._environ.get("FLEET_TERMINAL", "")
        if found and shutil.which(found[0]):
            return ""
        if named:
            return f"FLEET_TERMINAL names {shlex.split(named)[:1] or ['nothing']}, which is not on the path"
        return "no terminal emulator is on the path; FLEET_TERMINAL can name one"

    def where(self) -> str:
        displays, _ = self._displays()
        command = self._command("", displays)
        shown = self._environ.get("WAYLAND_DISPLAY" if displays[:1] == ["wayland"] else "DISPLAY", "")
        return f"windows of {command[0] if command else 'a terminal emulator'} on {shown}"

    def start(self, launch: Launch) -> int:
        displays, why = self._displays()
        command = self._command(f"fleet {launch.worker}", displays)
        if not command:
            raise FleetError("unusable", why or self.obstacle(), hint="install a terminal emulator")
        before = self._desktop.active() if "x11" in displays else ""
        with Doorway(launch) as door, tempfile.TemporaryDirectory(prefix="fleet-") as scratch:
            said = os.path.join(scratch, "said")
            emulator = start_detached(
                Launch(
                    worker=launch.worker,
                    argv=(*command, *door.argv),
                    cwd=launch.cwd,
                    env=self._window_environment(launch),
                    log=said,
                ),
                lane="terminal",
            )

            def obstacle() -> str:
                if is_alive(emulator.identity) is not False:
                    return ""
                return f"{command[0]} opened no window: {_end_of(said) or 'it ended at once'}"

            try:
                pid = door.wait(obstacle)
            except FleetError:
                stop_tree(emulator.identity, "", 0.5)
                raise
        if before:
            self._desktop.give_back(before, {emulator.pid, *_ancestors(pid)})
        return pid

    def show(self, worker: Worker) -> str | None:
        why = self._desktop.obstacle() or x11_obstacle(self._environ)
        if why:
            return f"its window cannot be looked for: {why}"
        for pid in _ancestors(worker.pid):
            for window in self._desktop.of_process(pid):
                return None if self._desktop.activate(window) else "its window does not come to the front"
        return "no window of it was found"

    def clean(self, root: str) -> Iterable[Finding]:  # noqa: ARG002  nothing of it lies in a project
        return ()

    def _displays(self) -> tuple[list[str], str]:
        found = {"wayland": wayland_obstacle(self._environ), "x11": x11_obstacle(self._environ)}
        if set(found.values()) == {"WAYLAND_DISPLAY is not set", "DISPLAY is not set"}:
            return [], "there is no display: neither DISPLAY nor WAYLAND_DISPLAY is set"
        return [name for name, why in found.items() if not why], "; ".join(
            why for why in found.values() if why and "not set" not in why
        )

    def _command(self, title: str, displays: list[str]) -> list[str]:
        """The command that opens a window, up to the command that runs in it; empty if there is none."""
        named = shlex.split(self._environ.get("FLEET_TERMINAL", ""))
        known = {emulator.name: emulator for emulator in EMULATORS}
        if named:
            emulator = known.get(os.path.basename(named[0])) if len(named) == 1 else None
            return [*named, *_words(emulator, title)] if emulator else named
        for emulator in EMULATORS:
            if set(emulator.displays) & set(displays) and shutil.which(emulator.name):
                return [emulator.name, *_words(emulator, title)]
        return []

    def _window_environment(self, launch: Launch) -> dict[str, str]:
        """The person's own environment with the worker's marks, so that the window is of its tree and ends with it."""
        env = {name: value for name, value in self._environ.items() if not name.startswith("FLEET_")}
        return env | {name: launch.env[name] for name in ("FLEET_RUN", "FLEET_WORKER") if name in launch.env}


def _words(emulator: Emulator, title: str) -> list[str]:
    return [word.replace("{title}", title) for word in emulator.words]


def _ancestors(pid: int) -> list[int]:
    """The processes above one, the nearest first, as far as they can be its emulator."""
    found: list[int] = []
    while len(found) < _ABOVE:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        if pid <= 1 or pid == os.getpid():
            break
        found.append(pid)
    return found


def _end_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(4096).split("\n")
    except OSError:
        return ""
    return " ".join(line.strip() for line in lines if line.strip())[:300]
