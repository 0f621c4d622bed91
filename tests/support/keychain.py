"""An executable that behaves as macOS's `security` does where fleet calls it: exit statuses, output, and a prompt that waits."""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAM = """\
#!{python}
import json, os, shlex, sys, time

here = {place!r}
store, log, mode = here + "/items.json", here + "/calls.log", here + "/mode"


def run(words):
    with open(log, "a") as file:
        file.write(json.dumps(words) + "\\n")
    behaviour = open(mode).read() if os.path.exists(mode) else ""
    if behaviour == "prompt":
        print("a window asks", file=sys.stderr, flush=True)
        if not os.fork():  # what the real one starts to show the window
            time.sleep(600)
        time.sleep(600)
    if behaviour:
        print("secret in an error text", file=sys.stderr)
        return int(behaviour)
    items = json.load(open(store)) if os.path.exists(store) else {{}}
    command, rest = words[0], words[1:]
    options = {{rest[i]: rest[i + 1] for i in range(len(rest) - 1) if rest[i] in ("-s", "-a", "-X")}}
    name = options.get("-s", "") + "\\0" + options.get("-a", "")
    if command == "find-generic-password":
        if name not in items:
            return 44
        value = bytes.fromhex(items[name])
        if "-w" in rest:
            plain = value.decode("utf-8", "replace").isprintable() and value.isascii()
            print(value.decode() if plain else value.hex())
        else:
            print('keychain: "login.keychain-db"')
        return 0
    if command == "add-generic-password":
        if name in items and "-U" not in rest:
            return 45
        items[name] = options["-X"]
    elif command == "delete-generic-password":
        if name not in items:
            return 44
        del items[name]
    else:
        return 2
    json.dump(items, open(store, "w"))
    return 0


if sys.argv[1:] == ["-i"]:
    status = 0
    for line in sys.stdin:
        with open(log, "a") as file:
            file.write("-i\\n")
        if len(line) > 4095:
            sys.exit(1)
        saved, log = log, "/dev/null"
        status = run(shlex.split(line))
        log = saved
    sys.exit(status)
sys.exit(run(sys.argv[1:]))
"""


class Security:
    """The stand-in, its items, and the arguments of every call."""

    def __init__(self, place: Path) -> None:
        self._place = place / "security"
        self._place.mkdir()
        self.program = str(self._place / "security")
        Path(self.program).write_text(PROGRAM.format(python=sys.executable, place=str(self._place)))
        Path(self.program).chmod(0o755)

    def behave(self, mode: str) -> None:
        """`prompt` waits for a person; a number is the exit status of every call; empty is as usual."""
        (self._place / "mode").write_text(mode)

    @property
    def calls(self) -> str:
        log = self._place / "calls.log"
        return log.read_text() if log.exists() else ""
