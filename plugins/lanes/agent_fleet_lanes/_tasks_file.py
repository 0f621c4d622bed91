"""One task of ours in a project's `.vscode/tasks.json`, put there and taken out again without changing anything else.

Before the file is touched, its bytes and a record of what will be done lie in a directory of the queue, so that whoever comes
after a crash can put them back. The file is restored byte for byte, unless the
person changed it meanwhile: then only our task is taken out.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agent_fleet.api import Finding, FleetError, identity_of, is_alive
from agent_fleet_lanes._jsonc import Place, parse, place_at_top, place_in

LABEL = "fleet: worker"
_LARGEST = 4 << 20
_IGNORE = b"# made by agent-fleet for the time of a run\n/tasks.json\n/.gitignore\n"
_EMPTY = '{\n  "version": "2.0.0",\n  "tasks": []\n}\n'


class TasksFile:
    """The file of the project at `root`; `keep` is the directory for what is needed to restore it."""

    def __init__(self, root: str, keep: str) -> None:
        self._dir = os.path.join(root, ".vscode")
        self.path = os.path.join(self._dir, "tasks.json")
        self._ignore = os.path.join(self._dir, ".gitignore")
        self._keep = keep
        self._record = os.path.join(keep, "record.json")
        self._original = os.path.join(keep, "original")

    def is_theirs(self) -> bool:
        """Whether the project has a file of its own."""
        record = self._read_record()
        return bool(record["existed"]) if record else os.path.lexists(self.path)

    def obstacle(self) -> str:
        """Why our task cannot be put there, or an empty text."""
        if self._read_record() is not None:
            return ""  # it is there already, or can be restored first
        try:
            text = self._text()
            if text is None:
                return "the project has its own .vscode/.gitignore" if os.path.lexists(self._ignore) else ""
            return _unfit(text)
        except (OSError, ValueError) as error:
            return f".vscode/tasks.json cannot be read: {error}"

    def put(self, task: Mapping[str, Any]) -> bool:
        """Put our task there, and note that this process needs it; True if the file was changed. Raises FleetError, OSError."""
        me = identity_of()
        with self._alone():
            record = self._read_record()
            if record is not None and _digest(self._bytes()) == record["written"]:
                if me not in record["users"]:
                    self._write_record(record | {"users": [*record["users"], me]})
                return False
            if record is not None:
                self._restore(record)
            why = self.obstacle()
            if why:
                raise FleetError("unavailable", why, hint="use --windows or --tmux")
            self._put(task, me)
            return True

    def take_out(self) -> Finding | None:
        """Restore the file if nobody who lives needs it but this process; what was done, or None if nothing of ours is there."""
        if not os.path.exists(self._record):
            return None
        with self._alone():
            record = self._read_record()
            if record is None:
                return Finding(
                    level="warning", text=f"{self._record} cannot be read", hint="look at .vscode/tasks.json"
                )
            me = identity_of()
            others = [who for who in record["users"] if who != me and is_alive(who) is not False]
            if others:
                self._write_record(record | {"users": others})
                return Finding(level="ok", text=".vscode/tasks.json is in use by another run and was left")
            found = self._restore(record)
        try:
            os.rmdir(self._keep)
        except OSError:
            pass  # a worker is being started there
        return found

    # ------------------------------------------------------------------------------------------------------- changing

    def _put(self, task: Mapping[str, Any], me: str) -> None:
        before = self._bytes()
        text = _EMPTY if before is None else before.decode("utf-8")
        place = place_in(text, "tasks")
        block = _block(task, place or place_at_top(text), "\r\n" if "\r\n" in text else "\n", is_whole=place is None)
        offset = (place or place_at_top(text)).offset
        after = (text[:offset] + block + text[offset:]).encode("utf-8")
        record = {
            "existed": before is not None,
            "made_directory": not os.path.isdir(self._dir),
            "original": _digest(before),
            "written": _digest(after),
            "block": block,
            "users": [me],
        }
        if before is not None:
            _write(self._original, before, 0o600, self._keep)
        self._write_record(record)
        os.makedirs(self._dir, exist_ok=True)
        if before is None:
            _write(self._ignore, _IGNORE, 0o644, self._keep)
        _write(self.path, after, self._mode(), self._keep)

    def _restore(self, record: Mapping[str, Any]) -> Finding:
        now = self._bytes()
        found = Finding(level="ok", text=".vscode/tasks.json is as it was")
        if _digest(now) == record["written"]:
            self._put_back(record)
        elif _digest(now) != record["original"] and now is not None:
            found = self._take_only_ours(now, record["block"].encode("utf-8"))
        self._forget(record)
        return found

    def _put_back(self, record: Mapping[str, Any]) -> None:
        if not record["existed"]:
            return os.unlink(self.path)
        with open(self._original, "rb") as file:
            original = file.read()
        if _digest(original) != record["original"]:
            raise FleetError(
                "corrupt", f"{self._original} is not what was kept", hint="restore .vscode/tasks.json from git"
            )
        return _write(self.path, original, self._mode(), self._keep)

    def _take_only_ours(self, now: bytes, block: bytes) -> Finding:
        if now.count(block) == 1:
            _write(self.path, now.replace(block, b""), self._mode(), self._keep)
            return Finding(
                level="ok", text="the fleet's task was taken out of .vscode/tasks.json; your edit of it was kept"
            )
        if LABEL.encode() not in now:
            return Finding(level="ok", text=".vscode/tasks.json was edited, and has no task of the fleet any more")
        return Finding(
            level="warning",
            text=f"the task {LABEL!r} in .vscode/tasks.json was edited and was left",
            hint="take it out by hand",
        )

    def _forget(self, record: Mapping[str, Any]) -> None:
        if _digest(_bytes_of(self._ignore)) == _digest(_IGNORE):
            os.unlink(self._ignore)
        if record["made_directory"]:
            try:
                os.rmdir(self._dir)
            except OSError:
                pass  # the person keeps something there now
        for path in (
            self._record,
            self._original,
            os.path.join(self._keep, "new"),
        ):  # the record first: without it the others mean nothing
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass

    # -------------------------------------------------------------------------------------------------------- reading

    @contextmanager
    def _alone(self) -> Iterator[None]:
        os.makedirs(self._keep, 0o700, exist_ok=True)
        handle = os.open(self._keep, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _bytes(self) -> bytes | None:
        return _bytes_of(self.path)

    def _text(self) -> str | None:
        data = self._bytes()
        return None if data is None else data.decode("utf-8")

    def _mode(self) -> int:
        try:
            return stat.S_IMODE(os.lstat(self.path).st_mode)
        except FileNotFoundError:
            return 0o644

    def _read_record(self) -> dict[str, Any] | None:
        try:
            with open(self._record, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return None
        wanted = {"existed", "made_directory", "original", "written", "block", "users"}
        return found if isinstance(found, dict) and found.keys() == wanted else None

    def _write_record(self, record: Mapping[str, Any]) -> None:
        _write(self._record, json.dumps(record).encode(), 0o600, self._keep)


def _unfit(text: str) -> str:
    """Why a file of the project's own cannot take our task, or an empty text."""
    try:
        found = parse(text)
    except (ValueError, RecursionError) as error:
        return f"the project's .vscode/tasks.json cannot be read: {error}"
    if not isinstance(found, dict) or not isinstance(found.get("tasks", []), list):
        return "the project's .vscode/tasks.json has another form than VS Code gives it"
    for task in found.get("tasks", []):
        group = task.get("group") if isinstance(task, dict) else None
        if isinstance(group, dict) and group.get("kind") == "build" and group.get("isDefault"):
            return "the project has a default build task of its own, which the shortcut would run"
    return ""


def _block(task: Mapping[str, Any], place: Place, end: str, *, is_whole: bool) -> str:
    """The text to put in: our task, or an array with it, and a comma if something follows."""
    inner = json.dumps(task, indent=2, ensure_ascii=False).replace("\n", "\n    ")
    text = f'\n  "tasks": [\n    {inner}\n  ]' if is_whole else f"\n    {inner}"
    text += ("" if place.is_empty else ",") + ("\n  " if place.is_empty else "")
    return text.replace("\n", end)


def _bytes_of(path: str) -> bytes | None:
    """What is in a file, None if there is none. Raises OSError, also for what is no regular file or too large."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a regular file")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(f"it is larger than {_LARGEST} bytes")
    return data


def _write(path: str, data: bytes, mode: int, scratch: str) -> None:
    """Write a file whole or not at all, on the disk when this returns; what a crash leaves is in the directory `scratch`."""
    new = os.path.join(scratch, "new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(handle, mode)
        os.fsync(handle)
    os.replace(new, path)


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
