"""The command line: one table of commands, each loaded when it is typed; errors become one sentence and an exit status."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, TextIO

from agent_fleet import errors
from agent_fleet.commands import encode, tell, work
from agent_fleet.commands.table import HOT
from agent_fleet.errors import FleetError
from agent_fleet.text import printable


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """Run one command line and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(args)
    except (BrokenPipeError, SystemExit):
        # click turns a pipe whose reader has gone into an exit; nobody is left to be told anything
        _silence(1, 2)
        return 0
    except OSError:
        # not even the refusal could be written
        _silence(1, 2)
        return errors.FAULT


def _run(args: list[str]) -> int:
    try:
        result = _dispatch(args)
        if sys.stdout:
            sys.stdout.flush()
    except FleetError as error:
        return refuse(error, args)
    except KeyboardInterrupt:
        return refuse(FleetError("usage", "interrupted"), args, status=130)
    except BrokenPipeError:
        raise
    except OSError as error:
        if _is_unwritable(sys.stdout):
            _silence(1)
        return refuse(errors.from_os_error(error, "cannot go on"), args)
    return result if isinstance(result, int) else 0


def _dispatch(args: list[str]) -> object:
    """Agents' commands in their plain form run at once; everything else goes through click."""
    name = next((word for word in args if word in HOT), None)
    if name is not None:
        spec = importlib.import_module(f"agent_fleet.commands.{name}").command_line
        parsed = spec.parse(args)
        if parsed is not None:
            settings, values = parsed
            return work(spec.run, settings, **values)
    from agent_fleet import clicked

    return clicked.work(args)


def _is_unwritable(stream: TextIO | None) -> bool:
    try:
        if stream:
            stream.flush()
    except OSError:
        return True
    return False


def _silence(*descriptors: int) -> None:
    """Lead what is still buffered nowhere, so that the interpreter does not fail once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in descriptors:
        os.dup2(nowhere, number)
    if nowhere not in descriptors:
        os.close(nowhere)


def refuse(error: FleetError, args: list[str], *, status: int | None = None) -> int:
    """Print an error in the form that was asked for; returns the exit status."""
    form = _asked_format(args)
    if form == "human":
        rows = [f"error: {error.message}", *(f"  {detail}" for detail in error.details)]
        rows += [f"hint: {error.hint}"] if error.hint else []
        tell(printable("\n".join(rows)), error=True)
    else:
        payload: dict[str, Any] = {
            "ok": False,
            "code": error.code,
            "error": error.message,
            "details": list(error.details),
            **error.facts,
        }
        if error.hint:
            payload["hint"] = error.hint
        tell(encode(payload, form))
    return error.status if status is None else status


def _asked_format(args: list[str]) -> str:
    """The form of answer in a command line that may not have been understood."""
    form = os.environ.get("FLEET_FORMAT") or "human"
    for position, arg in enumerate(args):
        if arg == "--":
            break
        if arg == "--json":
            form = "json"
        elif arg.startswith("--format"):
            form = arg[9:] if arg[8:9] == "=" else args[position + 1] if position + 1 < len(args) else form
    return form if form in ("human", "json", "toon") else "human"
