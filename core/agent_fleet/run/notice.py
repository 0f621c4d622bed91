"""Telling the person of a run what needs them: on the desktop where there is one, and by a command of their own.

What comes within some seconds is told together, so that fifty tasks behind one login are one message.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from agent_fleet import walls
from agent_fleet.run.gates import Gate
from agent_fleet.text import count, line

GATHER: Final = 3.0  # seconds that more of the same is waited for
LONG_WAIT: Final = 300.0  # seconds from which on a wait for a limit is worth telling
_SECONDS = 10.0
_SEPARATE = 3  # walls of one moment that are told one by one
_APPLESCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


class Notice(NamedTuple):
    """One message. `event` is `blocked`, `waiting` or `ended`; `wall` is empty unless it is about one wall."""

    event: str
    title: str
    text: str
    tasks: tuple[str, ...] = ()
    wall: str = ""


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


def run(command: Sequence[str], environ: Mapping[str, str], stdin: bytes = b"", *, seconds: float = _SECONDS) -> str:
    """Run a command that tells somebody something; returns what went wrong with it, or an empty text."""
    try:
        child = subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"{command[0]}: {getattr(error, 'strerror', None) or error}"
    with child:
        try:
            child.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return f"{command[0]} did not end within {seconds:g} s"
    return f"{command[0]} ended with status {child.returncode}" if child.returncode else ""


def of_walls(met: Sequence[tuple[str, str]]) -> list[Notice]:
    """The messages about tasks that were parked, given as (task, reason): one a wall, or one for all if there are many."""
    behind: dict[str, list[str]] = {}
    named: dict[str, str] = {}
    for task, reason in met:
        wall = walls.parse(reason)
        behind.setdefault(wall.key, []).append(task)
        named.setdefault(wall.key, str(wall))
    if len(behind) > _SEPARATE:
        tasks = tuple(task for task, _ in met)
        kinds = list(dict.fromkeys(key.partition(":")[0] for key in behind))
        return [Notice("blocked", f"{count(len(tasks), 'task')} wait for you", ", ".join(kinds), tasks)]
    return [
        Notice("blocked", _waits(tasks), named[key], tuple(tasks), wall=named[key]) for key, tasks in behind.items()
    ]


def _waits(tasks: Sequence[str]) -> str:
    return f"{tasks[0]} waits for you" if len(tasks) == 1 else f"{len(tasks)} tasks wait for you"


class Notices:
    """The messages of one run. They go out in a thread of their own, one at a time; that one fails is said once.

    `hook` is the person's command (`notify.command`): it gets one JSON object on standard input, and the same as
    `FLEET_NOTIFY_*` in its environment.
    """

    def __init__(
        self,
        hook: Sequence[str],
        environ: Mapping[str, str],
        about: Mapping[str, str],
        say: Callable[[str], None],
        *,
        platform: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hook = tuple(hook)
        self._environ = environ
        self._about = dict(about)
        self._say = say
        self._platform = platform
        self._clock = clock
        self._met: list[tuple[str, str]] = []
        self._since = 0.0
        self._told_of = ""
        self._failed: set[str] = set()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notice")
        self._going: list[Future[list[str]]] = []

    def parked(self, task: str, reason: str) -> None:
        """A task waits for a person."""
        if not self._met:
            self._since = self._clock()
        self._met.append((task, reason))

    def waits(self, gate: Gate, seconds: float) -> None:
        """Nothing starts before a gate opens; told once for each time that it names, if that is long."""
        if seconds >= LONG_WAIT and self._told_of != gate.ends:
            self._told_of = gate.ends
            self._send([Notice("waiting", f"{gate.name} waits {gate.ends}", gate.why)])

    def step(self) -> None:
        """Send what has been gathered for long enough, unless a message is still on its way."""
        self._going = [each for each in self._going if not self._is_told(each)]
        if self._met and not self._going and self._clock() - self._since >= GATHER:
            self._flush()

    def ended(self, states: Mapping[str, int], waiting: int, why: str) -> None:
        """The run is over: send what is left, and say so if something needs a person. Returns when all of it was sent."""
        self._flush()
        rest = {state: states[state] for state in ("failed", "blocked") if states.get(state)}
        if rest or waiting:
            told = [f"{number} {state}" for state, number in states.items()]
            told += [f"{waiting} in the inbox" + (f": {why}" if why else "")] if waiting else []
            self._send([Notice("ended", f"{self._about.get('run', 'the run')} is over", ", ".join(told))])
        self._pool.shutdown(wait=True)
        for each in self._going:
            self._is_told(each)

    def _flush(self) -> None:
        met, self._met = self._met, []
        self._send(of_walls(met))

    def _send(self, notices: list[Notice]) -> None:
        if notices and not self._environ.get("FLEET_NO_NOTIFY"):
            self._going.append(self._pool.submit(lambda: [why for each in notices for why in self._tell(each)]))

    def _tell(self, notice: Notice) -> list[str]:
        desktop = order(self._platform, self._environ, f"fleet: {notice.title}", notice.text)
        wrong = [run(desktop, self._environ)] if desktop is not None else []
        if self._hook:
            told = message(notice, self._about)
            wrong.append(run(self._hook, {**self._environ, **variables(told)}, json.dumps(told).encode() + b"\n"))
        return [why for why in wrong if why]

    def _is_told(self, going: Future[list[str]]) -> bool:
        if not going.done():
            return False
        for why in going.result():
            program = why.partition(" ")[0]
            if program not in self._failed:
                self._failed.add(program)
                self._say(f"warning: a notification could not be shown: {line(why, 160)}")
        return True


def message(notice: Notice, about: Mapping[str, str]) -> dict[str, Any]:
    """What the person's command is told."""
    return {**about, **notice._asdict(), "tasks": list(notice.tasks)}


def variables(told: Mapping[str, Any]) -> dict[str, str]:
    """The same as environment variables: one line each, short enough for any system."""
    texts = {name: " ".join(value) if isinstance(value, list) else str(value) for name, value in told.items()}
    return {f"FLEET_NOTIFY_{name.upper()}": line(text, 1000) for name, text in texts.items()}
