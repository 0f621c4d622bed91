"""The file of a note: which one, reading it, replacing it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, read_bytes, write_all, write_whole

NAMES = ("TASKS.md", "BACKLOG.md", "TODO.md")
_TRIES = 20
_UTF16 = (b"\xff\xfe", b"\xfe\xff")

STARTER = """\
# Tasks

Write here what is to be done. `fleet from-note` adds the open items of READY to the queue, each once; `fleet to-note`
ticks what was done and logs what was observed.

## INBOX

Thoughts that are not tasks yet. This section is never read.

## READY

<!-- One task an item. What is indented below it goes with it:

- [ ] ! Fix the login test
  It fails once in ten runs, only on CI.
  touches: tests/login
  check: pytest -q tests/login

!! first   ! soon   ~ late   ⇉ beside others   ⇒ alone
not added:  ? a question to you   🔒 yours   -x skip
-->
"""


class _ChangedError(Exception):
    """Somebody else has written the note since it was read."""


class Page(NamedTuple):
    """A note: `path` as it is opened, and `file`, its name in the sources of tasks and in answers."""

    path: str
    file: str


def find(root: str, *, named: str | None, configured: str) -> Page:
    """The note that was named, else the configured one, else the first of TASKS.md, BACKLOG.md, TODO.md in the root.

    Raises FleetError (`not_found`) if there is none.
    """
    if named is not None:
        return _page(root, os.path.abspath(os.path.expanduser(named)))
    if configured:
        page = _page(root, os.path.join(root, os.path.expanduser(configured)))
        if not os.path.exists(page.path):
            raise FleetError(
                "not_found",
                f"there is no file {page.path}",
                hint="the key checklist.file names it: write it, or unset the key",
            )
        return page
    path = existing(root)
    if path is None:
        raise FleetError(
            "not_found",
            f"there is no checklist in {root}: no {', '.join(NAMES)}",
            hint="name a file, or let `fleet init --checklist` write a first one",
        )
    return _page(root, path)


def existing(root: str) -> str | None:
    """The note that a project keeps by one of the usual names."""
    return next((path for name in NAMES if os.path.lexists(path := os.path.join(root, name))), None)


def _page(root: str, path: str) -> Page:
    """The note by its path from the root if it lies below it, so that a project may move; links are not followed for its name."""
    directory, name = os.path.split(path)
    whole = os.path.join(os.path.realpath(directory), name)
    short = os.path.relpath(whole, os.path.realpath(root))
    return Page(whole, whole if short.split(os.sep)[0] == os.pardir else short)


def read(page: Page) -> bytes:
    """The note's bytes. Raises FleetError if it is not there or no file of text."""
    return _read(os.path.realpath(page.path), page)


def _read(path: str, page: Page) -> bytes:
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        raise FleetError("not_found", f"there is no file {page.path}", hint="name one that is there") from None
    except BadFileError as error:
        raise FleetError("bad_input", f"cannot read {page.path}: {error}", hint="name a text file") from None
    if data.startswith(_UTF16):
        raise FleetError("bad_input", f"{page.path} is UTF-16", hint="convert it to UTF-8 first")
    return data


def change(page: Page, edit: Callable[[bytes], bytes]) -> None:
    """Replace the note by what `edit` makes of it, whole or not at all, and again if somebody else changes it meanwhile.

    A link stays one: what it leads to is replaced. Raises FleetError (`busy`) if the file does not come to rest.
    """
    for _ in range(_TRIES):
        path = os.path.realpath(page.path)
        before = _read(path, page)
        after = edit(before)
        if after == before:
            return
        try:
            write_whole(path, after, mode=0o600, last=partial(_take_after, page, path, before))
        except _ChangedError:
            continue
        return
    raise FleetError("busy", f"{page.path} changes again and again", hint="run the same command again when it rests")


def _take_after(page: Page, path: str, before: bytes, new: int) -> None:
    """Give the new file the owner and mode of the old one, as far as this user may; then see that the old one is still the same."""
    old, own = os.stat(path), os.fstat(new)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(new, old.st_uid, old.st_gid)
        except PermissionError:
            pass
    os.fchmod(new, stat.S_IMODE(old.st_mode))
    if _read(path, page) != before:
        raise _ChangedError


def start(path: str) -> None:
    """Write the starter. Raises FileExistsError rather than touch what is there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        write_all(descriptor, STARTER.encode())
    finally:
        os.close(descriptor)
