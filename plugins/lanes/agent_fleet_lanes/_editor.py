"""A terminal of the editor for each worker: a prepared task, and the one shortcut that runs it in the project's own window.

Nothing is typed. A shortcut is pressed only in a window that is certainly this project's own: the only one whose title names the
project's directory, of a process of this user that has it open.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from agent_fleet.api import Finding, FleetError, Launch, Worker
from agent_fleet_lanes import _door
from agent_fleet_lanes._display import x11_obstacle
from agent_fleet_lanes._doorway import Doorway
from agent_fleet_lanes._tasks_file import LABEL, TasksFile
from agent_fleet_lanes._xdotool import Desktop

SHORTCUT = "ctrl+shift+b"  # "Run Build Task"
_CLASSES = "^(code|code-oss|code - oss|vscodium|codium|code-insiders|code - insiders|cursor)$"
_APPS = ("Visual Studio Code", "Visual Studio Code - Insiders", "Code - OSS", "VSCodium", "Cursor")
_FRESH = 5.0  # seconds for which an answer about windows is not asked for again
_RELOAD = 1.5  # seconds that the editor gets to notice that its tasks changed
_PRESSES = 3
_COMES = 6.0  # seconds from the shortcut to the worker


class Answer(NamedTuple):
    """What was found out about windows, and when."""

    window: str
    why: str
    at: float


class Editor:
    """`is_asked_for` says that the person named this form: then a tasks file of the project's own is merged, too."""

    name = "editor"

    def __init__(self, root: str, queue_dir: str, environ: Mapping[str, str], *, is_asked_for: bool) -> None:
        self._root = os.path.realpath(root)
        self._keep = os.path.join(queue_dir, "lanes", "editor") if queue_dir else ""
        self._environ = environ
        self._is_asked_for = is_asked_for
        self._desktop = Desktop(environ)
        self._tasks = TasksFile(self._root, self._keep)
        self._answer: Answer | None = None

    def obstacle(self) -> str:
        if not self._keep:
            return "there is no queue"
        why = x11_obstacle(self._environ) or self._desktop.obstacle()
        if why:
            return why
        if "${" in self._root + sys.executable:
            return "the editor would change the path of the project, which has a ${ in it"
        if self._tasks.is_theirs() and not self._is_asked_for:
            return "the project has its own .vscode/tasks.json; --vscode merges it"
        return self._tasks.obstacle() or self._look().why

    def where(self) -> str:
        return "terminals of the project's editor window"

    def start(self, launch: Launch) -> int:
        window = self._certain(self._look(is_new=True))
        if self._tasks.put(self._task()):
            time.sleep(_RELOAD)
        place = os.path.join(self._keep, "door")
        _clear(place)
        before = self._desktop.active()
        try:
            with Doorway(launch, place) as door:
                for _ in range(_PRESSES):
                    self._press(window)
                    try:
                        return door.wait(lambda: "", _COMES)
                    except FleetError as error:
                        if error.code != "unavailable":
                            raise
        finally:
            if before and before != window:
                self._desktop.activate(before)
        raise FleetError("unavailable", f"the editor did not run its task {LABEL!r}", hint="try another form")

    def show(self, worker: Worker) -> str | None:  # noqa: ARG002  which of its terminals cannot be told from outside
        found = self._look(is_new=True)
        if found.why:
            return found.why
        return None if self._desktop.activate(found.window) else "the editor's window does not come to the front"

    def clean(self, root: str) -> Iterable[Finding]:
        if not self._keep or os.path.realpath(root) != self._root:
            return
        try:
            found = self._tasks.take_out()
        except OSError as error:
            found = Finding(level="warning", text=f".vscode/tasks.json could not be restored: {error}")
        if found is not None:
            yield found

    # ------------------------------------------------------------------------------------------------------ the window

    def _look(self, *, is_new: bool = False) -> Answer:
        """The project's own window, or why there is none; asked again only now and then, as each look starts processes."""
        answer = self._answer
        if answer is None or is_new or time.monotonic() - answer.at > _FRESH:
            window, why = self._find()
            answer = self._answer = Answer(window, why, time.monotonic())
        return answer

    def _find(self) -> tuple[str, str]:
        name = os.path.basename(self._root)
        named = [window for window in self._desktop.of_class(_CLASSES) if self._is_named(window)]
        if not named:
            return "", f"no editor window names {name!r} as its directory"
        if len(named) > 1:
            return "", f"{len(named)} editor windows name {name!r} as their directory"
        if not _has_open(self._desktop.pid(named[0]), self._root):
            return "", f"it is not certain that the editor window {name!r} is of {self._root}; open a terminal in it"
        return named[0], ""

    def _is_named(self, window: str) -> bool:
        return root_of(self._desktop.title(window)) == os.path.basename(self._root)

    def _certain(self, answer: Answer) -> str:
        if answer.why:
            raise FleetError("unavailable", answer.why, hint="use --windows or --tmux")
        return answer.window

    def _press(self, window: str) -> None:
        """Press the shortcut, after a last look at which window would get it."""
        self._desktop.activate(window)
        if self._desktop.active() != window or not self._is_named(window):
            raise FleetError("unavailable", "the editor's window does not come to the front", hint="try another form")
        self._desktop.press(SHORTCUT)

    def _task(self) -> dict[str, Any]:
        return {
            "label": LABEL,
            "detail": "Made by agent-fleet for the time of a run; `fleet clean` takes it out.",
            "type": "process",
            "command": sys.executable,
            "args": ["-I", "-S", _door.__file__, os.path.join(self._keep, "door")],
            "options": {"cwd": self._root},
            "group": {"kind": "build", "isDefault": True},
            "presentation": {"panel": "new", "reveal": "always", "focus": False, "close": True, "echo": False},
            "problemMatcher": [],
            "runOptions": {"instanceLimit": 256},
        }


def root_of(title: str) -> str:
    """The directory that an editor's title names: `FILE - DIRECTORY - Visual Studio Code`; empty if it names none."""
    for app in sorted(_APPS, key=len, reverse=True):
        if title.endswith(f" - {app}"):
            return title.removesuffix(f" - {app}").rpartition(" - ")[2].lstrip("\u25cf ")
    return ""


def _has_open(pid: int, root: str) -> bool:
    """Whether a process of this user, or one below it, works in the directory or was started with it."""
    return any(_works_in(each, root) for each in _with_descendants(pid)) if pid > 1 else False


def _works_in(pid: int, root: str) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return False
        cwd = os.readlink(f"/proc/{pid}/cwd")
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0") if word]
    except OSError:
        return False
    uris = {f"file://{quote(root)}", f"--folder-uri=file://{quote(root)}"}
    return cwd == root or any(word in uris or os.path.realpath(os.path.join(cwd, word)) == root for word in words[1:])


def _with_descendants(pid: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    above = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(above, []).append(int(name))
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += children.get(each, ())


def _clear(place: str) -> None:
    """Remove what a crash left behind: a launch for which nobody waits."""
    try:
        os.close(os.open(os.path.join(place, "answer"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        if not os.path.isdir(place) or time.time() - os.stat(place).st_mtime < _COMES:
            return
    except OSError:
        pass  # ENXIO: it has no reader
    else:
        return
    shutil.rmtree(place, ignore_errors=True)
