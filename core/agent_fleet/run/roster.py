"""The workers of this project on disk: what was started, what has ended, what waits to be settled.

`runs/<run>/workers/<worker>/` holds `worker.json` (what was started), `keeper.json` and `stdin` (the keeper's order),
`exit.json` (how it ended, written by the keeper) and `settled` (an empty file: nothing is left to do). `worker.json` is there
before the process is, without its identity, so that no process is ever without a record.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple, cast

from agent_fleet import identity, process
from agent_fleet.model import Exit, Worker
from agent_fleet.queue import names
from agent_fleet.queue.store import BadFileError, Queue, read_json, write_whole


class Run(NamedTuple):
    """One run of the driver. `mark` is in the environment of everything that it started."""

    id: str
    dir: str
    mark: str
    identity: str


class Attempt(NamedTuple):
    """One started worker and the lease that it works under. `dir` is its directory, `mark` marks its tree.

    `cwd` is where it works (empty: in the project), `tree` the name of its worktree, if it has one. A crew has `seats` and no
    task: it claims by itself, so many tasks at once, from its `share` of the queue. `interactive` says that it has a terminal.
    `account` is the label it works under, taken from `pool` by the lease of that name; empty: the person's own login.
    """

    id: str
    dir: str
    mark: str
    task: str
    generation: int
    lane: str
    provider: str
    log: str
    nonce: str
    started: float
    worker: Worker
    session: str = ""
    cwd: str = ""
    tree: str = ""
    seats: int = 0
    interactive: bool = False
    share: str = ""
    account: str = ""
    pool: str = ""
    lease: str = ""

    @property
    def is_crew(self) -> bool:
        return self.seats > 0

    @property
    def is_launched(self) -> bool:
        """Whether it is a window with a command of the person's: no provider of ours knows it, and no run governs it."""
        return self.is_crew and not self.provider

    @property
    def label(self) -> str:
        """What people know it by: its task, or the worker itself where it has no single one."""
        return self.task or self.id

    @property
    def run(self) -> str:
        """The id of the run that started it."""
        return os.path.basename(os.path.dirname(os.path.dirname(self.dir)))

    @property
    def run_mark(self) -> str:
        """The mark of that run."""
        return self.mark.rpartition("-w")[0]


def new_run(queue: Queue, options: dict[str, Any]) -> Run:
    """Begin a run: its directory is made by one mkdir, so that two drivers never share a number."""
    number = (
        max((int(name[1:]) for name in queue.listing("runs") if name[:1] == "r" and name[1:].isdigit()), default=0) + 1
    )
    while True:
        directory = queue.path("runs", f"r{number}")
        try:
            os.mkdir(directory)
            break
        except FileExistsError:
            number += 1
    os.mkdir(os.path.join(directory, "workers"))
    run = Run(f"r{number}", directory, f"r{number}-{secrets.token_hex(8)}", identity.identity_of())
    record = {"identity": run.identity, "mark": run.mark, "started": time.time(), "options": options}
    write_whole(os.path.join(directory, "driver.json"), json.dumps(record).encode() + b"\n")
    return run


def end_run(run: Run, summary: dict[str, Any]) -> None:
    """Note that a run has ended, and with what."""
    path = os.path.join(run.dir, "driver.json")
    try:
        record = read_json(path)
    except (BadFileError, FileNotFoundError):
        record = {"identity": run.identity, "mark": run.mark}
    record |= {"ended": time.time(), "summary": summary}
    write_whole(path, json.dumps(record).encode() + b"\n")


def runs(queue: Queue) -> Iterator[tuple[Run, bool | None]]:
    """Every run that has not ended, with whether its driver still lives (None: cannot be told)."""
    for name in sorted(queue.listing("runs")):
        try:
            record = read_json(queue.path("runs", name, "driver.json"))
        except (BadFileError, FileNotFoundError, NotADirectoryError):
            continue
        who, mark = record.get("identity"), record.get("mark")
        if "ended" not in record and isinstance(who, str) and isinstance(mark, str) and mark:
            yield Run(name, queue.path("runs", name), mark, who), identity.is_alive(who)


def mark_of(queue: Queue, run: str) -> str:
    """The mark of a run, ended or not; empty if there is no record of it."""
    try:
        found = read_json(queue.path("runs", run, "driver.json")).get("mark")
    except (BadFileError, FileNotFoundError, NotADirectoryError):
        return ""
    return found if isinstance(found, str) else ""


def options(run: Run) -> dict[str, Any]:
    """What the run was asked for; empty if that cannot be read."""
    try:
        found = read_json(os.path.join(run.dir, "driver.json")).get("options")
    except (BadFileError, FileNotFoundError):
        return {}
    return found if isinstance(found, dict) else {}


def write_attempt(attempt: Attempt) -> None:
    record = attempt._asdict() | {
        "worker": {
            "id": attempt.worker.id,
            "lane": attempt.worker.lane,
            "pid": attempt.worker.pid,
            "identity": attempt.worker.identity,
            "handle": attempt.worker.handle,
        }
    }
    write_whole(os.path.join(attempt.dir, "worker.json"), json.dumps(record).encode() + b"\n", durable=False)


def at_work(queue: Queue, *, but: Container[str] = ()) -> list[Attempt]:
    """The workers of every run of this project that are at work now, without those whose ids are in `but`."""
    return [
        attempt
        for run, _ in runs(queue)
        for attempt in attempts(queue, run)
        if attempt.id not in but and not has_ended(attempt)
    ]


def counted(workers: Iterable[Attempt]) -> dict[str, int]:
    """How many workers these are, by lane: a crew counts as many as it has seats."""
    found: dict[str, int] = {}
    for attempt in workers:
        found[attempt.lane] = found.get(attempt.lane, 0) + max(1, attempt.seats)
    return found


def has_ended(attempt: Attempt) -> bool:
    """Whether an attempt is over: its keeper has said so, or is gone."""
    return read_exit(attempt) is not None or identity.is_alive(attempt.worker.identity) is False


def attempts(queue: Queue, run: Run) -> Iterator[Attempt]:
    """The attempts of a run that are not settled yet."""
    for name in sorted(queue.listing("runs", run.id, "workers")):
        directory = os.path.join(run.dir, "workers", name)
        if os.path.exists(os.path.join(directory, "settled")):
            continue
        found = _attempt_in(directory)
        if found is not None:
            yield found


def find(queue: Queue, agent: str) -> Attempt | None:
    """The attempt of a worker by the name that it claims under (`r2-w5`, or `r2-w5-1` of a seat), settled or not."""
    run, dash, rest = agent.partition("-w")
    number = rest.partition("-")[0]
    if not (dash and run[:1] == "r" and names.is_number(run[1:]) and names.is_number(number)):
        return None
    return _attempt_in(queue.path("runs", run, "workers", f"w{number}"))


def _attempt_in(directory: str) -> Attempt | None:
    try:
        record = read_json(os.path.join(directory, "worker.json"))
        return Attempt(**{**record, "dir": directory, "worker": Worker(**record["worker"])})
    except (BadFileError, FileNotFoundError, NotADirectoryError, TypeError, KeyError):
        return None


def read_exit(attempt: Attempt) -> tuple[Exit, dict[str, Any]] | None:
    """How the attempt ended, and the whole record; None if its keeper has not said so."""
    try:
        record = read_json(os.path.join(attempt.dir, "exit.json"))
    except (FileNotFoundError, BadFileError):
        return None
    cause, note = str(record.get("cause", "exited")), str(record.get("note", ""))
    if cause == "stopped" and note.startswith("shed"):
        cause = "shed"
    found = Exit(
        code=record.get("code"),
        signal=record.get("signal"),
        cause=cast(Any, cause),
        seconds=float(record.get("seconds", 0.0)),
        note=note,
    )
    return found, record


def mark_settled(attempt: Attempt) -> None:
    """Note that nothing is left to do for an attempt. Its directory may be gone, and its mark with it."""
    mark_dir_settled(attempt.dir)


def mark_dir_settled(directory: str) -> None:
    """The same for a worker's directory of which no attempt came."""
    try:
        with open(os.path.join(directory, "settled"), "w", encoding="utf-8"):
            pass
    except FileNotFoundError:
        pass


def ask_to_stop(attempt: Attempt, reason: str) -> None:
    """Ask the keeper to end its worker; the reason is for its exit record. Asking twice does no harm."""
    path = os.path.join(attempt.dir, "stop")
    if os.path.exists(path):
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(reason + "\n")
    except OSError:
        pass  # a full disk, or a directory that is gone, takes the reason, not the request
    process.ask_to_end(attempt.worker.identity)


def is_asked_to_stop(attempt: Attempt) -> bool:
    return os.path.exists(os.path.join(attempt.dir, "stop"))


def give_order(run: Run, order: str) -> None:
    """Leave an order (`drain` or `stop`) for the driver of a run."""
    write_whole(os.path.join(run.dir, "order"), order.encode() + b"\n", durable=False)


def read_order(run: Run) -> str:
    """The order that was left for this run, or an empty string."""
    try:
        with open(os.path.join(run.dir, "order"), encoding="utf-8", errors="replace") as file:
            return file.readline(20).strip()
    except FileNotFoundError:
        return ""
