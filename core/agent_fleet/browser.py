"""Whether this machine has a browser that a task could use: one is started without a window, on a page of our own, and ended.

It gets a private profile and home, no network, and nothing but that page.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from agent_fleet import process
from agent_fleet.errors import FleetError
from agent_fleet.model import Launch

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "brave-browser",
    "firefox",
    "firefox-esr",
)
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Firefox.app/Contents/MacOS/firefox",
)
# the answer is computed in the page, so that it proves that scripts run
_PAGE = "data:text/html,<title>fleet</title><p><script>document.write('fleet-'+6*7)</script>"
_PROOF = "fleet-42"
_TICK = 0.05
_LONGEST = 40  # characters of a directory in which the path of a browser's socket is still short enough


class Tried(NamedTuple):
    """One browser that was started: `why` is empty if it showed the page. `memory` is the peak of its tree in bytes, by `basis`."""

    command: tuple[str, ...]
    version: str
    why: str
    seconds: float
    memory: int | None
    basis: Literal["pss", "rss", "unknown"]
    processes: int


def candidates(environ: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The commands of browsers that are here; `FLEET_BROWSER` alone if it is set. Raises `bad_config` if that cannot be read."""
    named = environ.get("FLEET_BROWSER", "")
    if named:
        try:
            words = tuple(shlex.split(named))
        except ValueError as error:
            raise FleetError(
                "bad_config", f"FLEET_BROWSER cannot be read: {error}", hint="write a command in it"
            ) from None
        if not words or shutil.which(words[0], path=environ.get("PATH")) is None:
            raise FleetError(
                "unhealthy", f"FLEET_BROWSER names {named!r}, which is no program", hint="correct its path"
            )
        return [words]
    found = [shutil.which(name, path=environ.get("PATH")) for name in NAMES]
    unique: dict[str, tuple[str, ...]] = {}
    for path in (*found, *PLACES):
        if path and os.access(path, os.X_OK):
            unique.setdefault(os.path.realpath(path), (path,))
    return list(unique.values())


def attempt(command: tuple[str, ...], environ: Mapping[str, str], seconds: float) -> Tried:
    """Start one browser on our page, and end it within so many seconds."""
    mark = f"probe-{uuid.uuid4().hex}"
    short = None if len(tempfile.gettempdir()) <= _LONGEST else "/tmp"  # noqa: S108  the directory itself is private
    with tempfile.TemporaryDirectory(prefix="fleet-browser-", dir=short, ignore_cleanup_errors=True) as home:
        env = _environment(environ, home, mark)
        version = _version(command, env)
        launch = Launch(
            worker=mark,
            argv=(*command, *_arguments(command[0], home)),
            cwd=home,
            env=env,
            log=os.path.join(home, "output"),
        )
        begun = time.monotonic()
        try:
            worker = process.start_detached(launch, lane="")
        except FleetError as error:
            return Tried(command, version, error.message, 0.0, None, "unknown", 0)
        try:
            used = max(_watched(worker.identity, mark, begun + seconds), key=lambda each: each.memory or 0)
            took = time.monotonic() - begun
            why = _judge(home, is_over=process.is_alive(worker.identity) is False, seconds=seconds)
        finally:
            process.stop_tree(worker.identity, mark, 1.0)
        return Tried(command, version, why, took, used.memory, used.basis, used.processes)


def _environment(environ: Mapping[str, str], home: str, mark: str) -> dict[str, str]:
    kept = {name: environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in environ}
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), home)
    return kept | places | {"FLEET_WORKER": mark}


def _arguments(program: str, home: str) -> list[str]:
    profile = os.path.join(home, "profile")
    if "firefox" in os.path.basename(program).lower():
        os.mkdir(profile)
        shot = os.path.join(home, "page.png")
        return ["--headless", "--no-remote", "--profile", profile, "--screenshot", shot, _PAGE]
    quiet = ("background-networking", "component-update", "sync", "extensions", "gpu", "dev-shm-usage")
    return [
        "--headless=new",
        f"--user-data-dir={profile}",
        "--no-first-run",
        "--no-default-browser-check",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        *(f"--disable-{feature}" for feature in quiet),
        *(["--no-sandbox"] if os.getuid() == 0 else []),  # its sandbox refuses to work for root
        "--dump-dom",
        _PAGE,
    ]


def _version(command: tuple[str, ...], env: Mapping[str, str]) -> str:
    try:
        answer = subprocess.run(
            [*command, "--version"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return answer.stdout.decode("utf-8", "replace").strip().partition("\n")[0] or "unknown"


def _watched(identity: str, mark: str, deadline: float) -> Iterator[process.TreeUsage]:
    """What the tree uses, until it has ended or the time is over."""
    yield process.TreeUsage(None, "unknown", None, 0)
    while time.monotonic() < deadline and process.is_alive(identity) is not False:
        yield process.usage_of(identity, mark)
        time.sleep(_TICK)


def _judge(home: str, *, is_over: bool, seconds: float) -> str:
    """Why it did not show the page, or an empty text."""
    if not is_over:
        return f"it did not show a page within {seconds:g} s"
    try:
        with open(os.path.join(home, "output"), encoding="utf-8", errors="replace") as file:
            said = file.read(1 << 20)
    except OSError:
        said = ""
    if _PROOF in said or os.path.exists(os.path.join(home, "page.png")):
        return ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if "FATAL" in line] or lines
    return f"it ended without showing the page: {lines[-1][:200] if lines else 'it said nothing'}"
