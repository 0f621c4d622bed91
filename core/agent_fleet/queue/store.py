"""The queue directory: listing and finding what is there, and setting aside what does not belong there.

Nothing here decides anything; claims, finishes and intake are built on it.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agent_fleet.errors import FleetError
from agent_fleet.journal import Journal
from agent_fleet.queue import body as bodies
from agent_fleet.queue import names
from agent_fleet.queue.files import (
    BadFileError,
    make_directory,
    move,
    read_bytes,
    read_json,
    remove_if_empty,
    sync_directory,
    write_whole,
)

__all__ = ["BadFileError", "Place", "Queue", "move", "read_bytes", "read_json", "remove_if_empty", "write_whole"]

FORMAT = 1
DIRS = (
    "quarantine",  # first: what stands in the place of another is moved there
    "inbox",
    "active",
    "done",
    "blocked",
    "failed",
    "records",
    "owners",
    "staging",
    "seq",
    "runs",
    "logs",
    "texts",
)
FILES = ("queue.json", "journal.jsonl", "holds.json", "gates.json", "health.json")


class Place(NamedTuple):
    """Where a task is: its state, its file, its lease generation; owner and gate if it is active."""

    state: str
    path: str
    generation: int
    owner: str = ""
    gate: str = ""


class Queue:
    """One queue directory. `notices` collects what a person should read, such as files that were set aside."""

    __slots__ = ("dir", "journal", "notices")

    def __init__(self, directory: str) -> None:
        self.dir = directory
        self.notices: list[str] = []
        self.journal = Journal(os.path.join(directory, "journal.jsonl"), self.notices)

    def path(self, *parts: str) -> str:
        return os.path.join(self.dir, *parts)

    # ------------------------------------------------------------------------------------------- life of the directory

    def create(self) -> bool:
        """Make what is missing; safe for many processes at once. True if the queue was not there before."""
        marker = self.path("queue.json")
        fresh = not os.path.exists(marker)
        os.makedirs(self.dir, exist_ok=True)
        for name in DIRS:
            self._make(self.path(name))
        if fresh:
            write_whole(marker, json.dumps({"format": FORMAT}).encode() + b"\n")
        return fresh

    def mend(self) -> None:
        """Put back the directories that a queue needs, as far as this user may; a file in their place is set aside."""
        for name in DIRS:
            path = self.path(name)
            if not os.path.isdir(path):
                try:
                    self._make(path)
                except OSError as error:
                    self.notices.append(f"{name} of the queue is missing and cannot be made: {error.strerror}")

    def _make(self, path: str) -> None:
        if os.path.lexists(path) and not os.path.isdir(path):
            self.quarantine(path, "a directory belongs in its place")
        make_directory(path)

    def clear_way(self, directory: str) -> None:
        """Make a directory below the queue, durably, setting aside whatever stands where it or one above it belongs."""
        if os.path.isdir(directory):
            return
        path = self.dir
        for part in os.path.relpath(directory, self.dir).split(os.sep):
            above, path = path, os.path.join(path, part)
            if not os.path.isdir(path):
                self._make(path)
                try:
                    sync_directory(above)
                except FileNotFoundError:
                    continue  # removed again, as empty: whoever needs it makes it once more

    def move(self, source: str, target: str) -> bool:
        """Rename to a place below the queue, whatever stands in the way. False if `source` is not there any more."""
        try:
            return move(source, target)
        except (NotADirectoryError, FileExistsError):
            self.clear_way(os.path.dirname(target))
        except IsADirectoryError:
            self.quarantine(target, "a file belongs in its place")
        return move(source, target)

    def tell(self, event: str, **fields: object) -> None:
        """Note what has happened. It cannot be undone, so a full disk leaves a gap, which is named and `verify` recognises."""
        self.tell_all([{"event": event, **fields}])

    def tell_all(self, events: Sequence[dict[str, object]]) -> None:
        """The same of several things, in one piece."""
        try:
            self.journal.extend(events)
        except OSError as error:
            self.notices.append(f"the journal could not be written ({events[0]['event']}): {error.strerror}")

    def check_format(self) -> None:
        """Raise FleetError if a newer version of fleet wrote this queue; a missing or broken marker is format 1."""
        try:
            version = read_json(self.path("queue.json")).get("format", FORMAT)
        except (BadFileError, FileNotFoundError):
            version = FORMAT
        if isinstance(version, int) and version > FORMAT:
            raise FleetError(
                "format_newer",
                f"the queue in {self.dir} has format {version}; this fleet knows {FORMAT}",
                hint="use a newer version of fleet for this project",
            )

    # ----------------------------------------------------------------------------------------------------- listing

    def listing(self, *parts: str) -> list[str]:
        """The names in a directory of the queue, unsorted; empty if it is not there."""
        path = self.path(*parts)
        try:
            return os.listdir(path)
        except FileNotFoundError:
            if os.path.islink(path):
                self.quarantine(path, "a link that leads nowhere stands where a directory belongs")
        except NotADirectoryError:
            self.quarantine(path, "a file stands where a directory belongs")
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            self.quarantine(path, "a link to itself stands where a directory belongs")
        return []

    def tracks(self) -> list[tuple[tuple[int, str, str, str], str]]:
        """Every track of the inbox as (parsed, name), first priority first."""
        found = []
        for name in self.listing("inbox"):
            parsed = names.parse_track(name)
            if parsed is None:
                self.quarantine(self.path("inbox", name), "not a track of the inbox")
            else:
                found.append((parsed, name))
        found.sort()
        return found

    def buckets(self, *parts: str) -> list[str]:
        """The bucket directories below a state or track, lowest numbers first."""
        found = []
        for name in self.listing(*parts):
            if names.is_bucket(name):
                found.append(name)
            else:
                self.quarantine(self.path(*parts, name), "not a bucket of tasks")
        found.sort()
        return found

    def entries(self, *parts: str) -> list[tuple[int, str, int, str]]:
        """The task files in one directory as (number, task, generation, name), oldest first."""
        found = []
        for name in self.listing(*parts):
            parsed = names.parse_entry(name)
            if parsed is None:
                self.quarantine(self.path(*parts, name), "not the name of a task file")
            else:
                found.append((int(parsed[0][1:]), parsed[0], parsed[1], name))
        found.sort()
        return found

    def active(self) -> list[tuple[str, int, str, str, str]]:
        """Every held task as (task, generation, owner, gate, name)."""
        found = []
        for name in self.listing("active"):
            parsed = names.parse_active(name)
            if parsed is None:
                self.quarantine(self.path("active", name), "not the name of an active task")
            else:
                found.append((*parsed, name))
        return found

    def settled(self, state: str) -> Iterator[tuple[str, int, str]]:
        """Every task in `done`, `blocked` or `failed` as (task, generation, path), lowest number first."""
        for bucket in self.buckets(state):
            for _, task, generation, name in self.entries(state, bucket):
                yield task, generation, self.path(state, bucket, name)

    def waiting(self) -> Iterator[tuple[str, int, str, str]]:
        """Every task in the inbox as (task, generation, gate, path), by track, then number within a gate."""
        for _, track in self.tracks():
            yield from self.in_track(track)

    def in_track(self, track: str) -> Iterator[tuple[str, int, str, str]]:
        """The same for one track of the inbox."""
        for bucket in self.buckets("inbox", track):
            for gate in self.listing("inbox", track, bucket):
                for _, task, generation, name in self.entries("inbox", track, bucket, gate):
                    yield task, generation, gate, self.path("inbox", track, bucket, gate, name)

    def places(self, state: str) -> Iterator[tuple[str, int, str]]:
        """Every task in one state as (task, generation, path), in the order in which people want to read them."""
        if state == "inbox":
            for _, track in self.tracks():
                for bucket in self.buckets("inbox", track):
                    found = [
                        (number, task, generation, self.path("inbox", track, bucket, gate, name))
                        for gate in self.listing("inbox", track, bucket)
                        for number, task, generation, name in self.entries("inbox", track, bucket, gate)
                    ]
                    yield from ((task, generation, path) for _, task, generation, path in sorted(found))
        elif state == "active":
            for task, generation, _, _, name in sorted(self.active(), key=lambda held: int(held[0][1:])):
                yield task, generation, self.path("active", name)
        else:
            yield from self.settled(state)

    # ----------------------------------------------------------------------------------------------------- finding

    def find(self, task: str) -> Place | None:
        """Where a task is now, or None. A task that moves while it is looked for is looked for again."""
        if not names.is_id(task):
            return None
        for _ in range(5):
            place = self.find_active(task) or self._find_waiting(task) or self._find_settled(task)
            if place is not None:
                return place
        return None

    def require(self, task: str) -> Place:
        """Where a task is now. Raises FleetError (`not_found`)."""
        place = self.find(task)
        if place is not None:
            return place
        aside = self.set_aside(task)
        if aside:
            where = os.path.relpath(self.path("quarantine", aside), os.path.dirname(self.dir))
            raise FleetError(
                "not_found",
                f"{task} was set aside: its file could not be used",
                hint=f"look at {where}, then add the task again",
            )
        raise FleetError("not_found", f"there is no task {task!r}", hint="`fleet list` shows the tasks of this project")

    def set_aside(self, task: str) -> str:
        """The name in `quarantine/` of a file of this task, or an empty text."""
        known = self.listing("quarantine") if names.is_id(task) else ()
        return next((name for name in known if f"-{task}.g" in name), "")

    def find_active(self, task: str) -> Place | None:
        prefix = task + ".g"
        for name in self.listing("active"):
            if name.startswith(prefix):
                parsed = names.parse_active(name)
                if parsed is not None:
                    return Place("active", self.path("active", name), parsed[1], parsed[2], parsed[3])
        return None

    def is_done(self, task: str) -> bool:
        return names.is_id(task) and task in self.done_in(names.bucket_of(task))

    def done_in(self, bucket: str) -> frozenset[str]:
        """The ids of the done tasks in one bucket."""
        parsed = (names.parse_entry(name) for name in self.listing("done", bucket))
        return frozenset(entry[0] for entry in parsed if entry is not None)

    def _find_settled(self, task: str) -> Place | None:
        for state in names.SETTLED:
            place = self._find_in(task, state)
            if place is not None:
                return place
        return None

    def _find_in(self, task: str, state: str) -> Place | None:
        prefix = task + ".g"
        bucket = names.bucket_of(task)
        for name in self.listing(state, bucket):
            if name.startswith(prefix):
                parsed = names.parse_entry(name)
                if parsed is not None:
                    return Place(state, self.path(state, bucket, name), parsed[1])
        return None

    def _find_waiting(self, task: str) -> Place | None:
        prefix = task + ".g"
        bucket = names.bucket_of(task)
        for track in self.listing("inbox"):
            for gate in self.listing("inbox", track, bucket) if names.parse_track(track) else ():
                for name in self.listing("inbox", track, bucket, gate):
                    parsed = names.parse_entry(name) if name.startswith(prefix) else None
                    if parsed is not None:
                        path = self.path("inbox", track, bucket, gate, name)
                        return Place("inbox", path, parsed[1], gate=gate)
        return None

    # ------------------------------------------------------------------------------------------------------ bodies

    def body(self, path: str, task: str) -> dict[str, Any] | None:
        """The body of a task file; None if it is gone or was no task and has been set aside."""
        try:
            found = read_json(path)
            wrong = bodies.fault(found, task)
            if wrong:
                raise BadFileError(wrong)
        except FileNotFoundError:
            return None
        except BadFileError as error:
            self.quarantine(path, str(error))
            return None
        return found

    def quarantine(self, path: str, why: str) -> None:
        """Set a file aside and name it. Where it cannot be moved (a read-only file system) it is named all the same."""
        place = os.path.relpath(path, self.dir)
        short = os.fsdecode(os.fsencode(place.replace(os.sep, "-"))[-150:])
        target = self.path("quarantine", f"{time.time_ns()}-{short}")
        try:
            if place == "quarantine":
                os.rename(path, path + ".moved")
                path += ".moved"
            os.makedirs(self.path("quarantine"), exist_ok=True)
            os.rename(path, target)
        except FileNotFoundError:
            return
        except OSError as error:
            self.notices.append(f"cannot use {place}: {why} (and it cannot be set aside: {error.strerror})")
            return
        self.tell("quarantined", file=place, why=why, to=os.path.basename(target))
        self.notices.append(f"set aside {place}: {why}; it is now {os.path.relpath(target, os.path.dirname(self.dir))}")

    # ------------------------------------------------------------------------------------------------------- moves

    def inbox_path(self, body: Mapping[str, Any], generation: int, gate: str) -> str:
        """Where a task waits, by its body."""
        track = names.track_name(body["priority"], body["need"], body.get("lane", ""), body.get("provider", ""))
        return self.path("inbox", track, names.bucket_of(body["id"]), gate, names.entry_name(body["id"], generation))

    def settled_path(self, state: str, task: str, generation: int) -> str:
        return self.path(state, names.bucket_of(task), names.entry_name(task, generation))
