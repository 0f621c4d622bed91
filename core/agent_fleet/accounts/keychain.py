"""Items of the macOS Keychain through `/usr/bin/security`. A value goes through a pipe and is never an argument.

`security` ends with the low byte of the framework's status: 44 no such item, 45 one is there already, 36 a person would have to be
asked and none may be. Where it asks all the same, it waits: every call has a deadline and is ended with all it started.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import subprocess
import unicodedata
from typing import NamedTuple

from agent_fleet.accounts.environment import person
from agent_fleet.accounts.spec import LoginState
from agent_fleet.errors import FleetError

PROGRAM = "/usr/bin/security"
DEADLINE = 5.0
LONGEST = 4000  # bytes of a command that `security -i` reads as one line
MOST_BYTES = 64 * 1024
_MISSING, _DUPLICATE, _LOCKED = 44, 45, 36


class _Ended(NamedTuple):
    status: int | None
    output: bytes


class Keychain:
    """The person's default keychain. `program` behaves as `security` does."""

    def __init__(self, program: str = PROGRAM, deadline: float = DEADLINE) -> None:
        self._program = program
        self._deadline = deadline

    def state(self, service: str, account: str) -> LoginState:
        """Whether there is such an item; its value is not asked for, so nobody is prompted."""
        ended = self._run("find-generic-password", "-s", service, "-a", account)
        known: dict[int | None, LoginState] = {0: "present", _MISSING: "absent"}
        return known.get(ended.status, "unknown")

    def read(self, service: str, account: str) -> bytes:
        """The value. Raises `not_found`, and `unavailable` if it is not given within the deadline."""
        ended = self._run("find-generic-password", "-s", service, "-a", account, "-w")
        self._judge(ended, "reading")
        return _value(ended.output)

    def write(self, service: str, account: str, value: bytes, *, replace: bool) -> None:
        """Store the value. Raises `wrong_state` if there is one already and it may not be replaced, else as `read`."""
        words = ["add-generic-password", *(["-U"] if replace else []), "-s", service, "-a", account, "-X", value.hex()]
        command = " ".join(shlex.quote(word) for word in words).encode() + b"\n"
        if len(command) > LONGEST:
            raise FleetError("refused", "the login is too long for the keychain", hint="keep this login in a file")
        self._judge(self._run("-i", stdin=command), "writing")

    def remove(self, service: str, account: str) -> bool:
        """Take the item away; False if there was none. Raises as `read`."""
        ended = self._run("delete-generic-password", "-s", service, "-a", account)
        if ended.status == _MISSING:
            return False
        self._judge(ended, "removing")
        return True

    def _judge(self, ended: _Ended, doing: str) -> None:
        if ended.status == 0:
            return
        if ended.status == _MISSING:
            raise FleetError("not_found", "the keychain has no such item", hint="log in to this profile first")
        if ended.status == _DUPLICATE:
            raise FleetError("wrong_state", "the keychain has such an item already", hint="remove it, or replace it")
        why = {
            None: f"it did not answer within {self._deadline:g} s; it may be asking a person",
            _LOCKED: "it is locked, or would have to ask a person",
        }.get(ended.status, f"{os.path.basename(self._program)} ended with {ended.status}")
        raise FleetError(
            "unavailable", f"{doing} the keychain: {why}", hint="unlock the login keychain, then run the command again"
        )

    def _run(self, *words: str, stdin: bytes = b"") -> _Ended:
        """One call. What it prints is kept only as its output; it never becomes part of a message."""
        try:
            process = subprocess.Popen(
                (self._program, *words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": person().home, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError:
            return _Ended(127, b"")
        try:
            output, _ = process.communicate(stdin, timeout=self._deadline)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # ours: it was made the leader of a session of its own just above
            process.communicate()
            return _Ended(None, b"")
        return _Ended(process.returncode, output[:MOST_BYTES])


def service_of(template: str, home: str) -> str:
    """The service's name, exact: the digest is that of the path as it is written, in NFC; a slash at its end would count."""
    digest = hashlib.sha256(unicodedata.normalize("NFC", home).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return template.replace("{digest}", digest)


def _value(output: bytes) -> bytes:
    """What was stored, a JSON object: `security -w` adds a newline, and prints what is not plain ASCII in hexadecimal digits."""
    text = output.removesuffix(b"\n")
    try:
        plain = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return text
    return plain if plain.lstrip().startswith(b"{") else text
