"""Taking away what is ours and dead: worktrees that are done with, scratch files of runs that are over, records of nobody.

Tasks, their records, the journal and the logs are never touched here.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agent_fleet import identity, tree
from agent_fleet.queue import lease
from agent_fleet.queue.store import BadFileError, Queue, read_json
from agent_fleet.run import checkout, removal, workplace, worktree

_RESTING = 3600.0  # seconds after which a temporary file whose writer is gone is nobody's


class Swept(NamedTuple):
    """One thing that was looked at: it is gone (in a dry run: would be), or `why` it was kept; `freed` is in bytes, if known."""

    kind: str
    path: str
    gone: bool
    why: str = ""
    freed: int = 0


def sweep(queue: Queue, environ: Mapping[str, str], *, keep_scratch: float, dry: bool = False) -> Iterator[Swept]:
    """Take away what can be taken away safely, one thing after the other; `keep_scratch` is in seconds since a run ended."""
    yield from _unfinished(queue, environ, dry=dry)
    for fate in removal.all_of(queue, environ, dry=dry):
        yield Swept("worktree", fate.tree.path, fate.gone, fate.why)
    for path in removal.strays(queue, environ):
        yield Swept("worktree", path, False, "there is no record of it")
    for path in list(workplace.abandoned(queue, environ)):
        yield _removed("temporary files", path, dry=dry)
    for path in list(_scratch(queue, keep_scratch)):
        yield _removed("scratch", path, dry=dry)
    for path in list(_orphans(queue)):
        yield _removed("temporary file", path, dry=dry)
    forgotten = 0 if dry else lease.forget(queue)
    if forgotten:
        yield Swept("owner records", f"{queue.path('owners')} ({forgotten})", True)


def _unfinished(queue: Queue, environ: Mapping[str, str], *, dry: bool) -> Iterator[Swept]:
    found = [each for each in worktree.trees(worktree.shelf(queue, environ)) if not each.made]
    if found and not dry:
        checkout.recover(queue, environ)
    for each in found:
        gone = dry or not os.path.lexists(each.file)
        yield Swept(
            "half-made worktree", each.path, gone, "" if gone else "it could not be removed, or is being made now"
        )


def _scratch(queue: Queue, keep: float) -> Iterator[str]:
    """The workers' directories of runs that have ended long ago, and of which nothing is alive."""
    for name in sorted(queue.listing("runs")):
        try:
            record = read_json(queue.path("runs", name, "driver.json"))
        except (BadFileError, FileNotFoundError, NotADirectoryError):
            continue
        ended, mark = record.get("ended"), record.get("mark")
        workers = queue.path("runs", name, "workers")
        if not isinstance(ended, int | float) or not isinstance(mark, str) or not mark or not os.path.isdir(workers):
            continue
        if time.time() - ended >= keep and not tree.marked(mark):
            yield workers


def _orphans(queue: Queue) -> Iterator[str]:
    """Files that somebody was writing when it died; see `write_draft` for their names."""
    for directory, _, names in os.walk(queue.dir):
        for name in names:
            pid = name.removeprefix(".tmp-").partition("-")[0]
            if not name.startswith(".tmp-") or not pid.isdigit() or identity.start_of(int(pid)) is not None:
                continue
            path = os.path.join(directory, name)
            try:
                if time.time() - os.lstat(path).st_mtime >= _RESTING:
                    yield path
            except FileNotFoundError:
                continue


def _removed(kind: str, path: str, *, dry: bool) -> Swept:
    try:
        if not dry:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
    except OSError as error:
        return Swept(kind, path, False, f"it could not be removed: {error.strerror}")
    return Swept(kind, path, True)
