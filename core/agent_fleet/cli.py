"""The command line: one table of commands, each loaded when it is typed; errors become one sentence and an exit status."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from agent_fleet import errors
from agent_fleet.commands import global_options
from agent_fleet.errors import FleetError
from agent_fleet.text import printable

COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (module, group, one line)
    "init": ("init", "Every day", "Make the task queue of this project, hidden from git."),
    "add": ("add", "Every day", "Add a task: a sentence, an address, or `-` for standard input."),
    "plan": ("plan", "Every day", "Show what would run, where and why, before anything starts."),
    "run": ("run", "Every day", "Work the queue, at the parallelism that the machine can take."),
    "blocked": ("blocked", "Every day", "Show what waits for a person, grouped by reason."),
    "where": ("where", "Project", "Show which project and which files are used."),
    "machine": ("machine", "Project", "Show what this machine can spare, and how that is known."),
    "doctor": ("doctor", "Project", "Check the health of this installation and project."),
    "plugins": ("plugins", "Project", "List the plugins, and what is broken."),
    "config": ("config", "Project", "Show every setting, its value and where it comes from."),
    "version": ("version", "Project", "Show the version."),
    "add-batch": ("add_batch", "Work in", "Add many tasks: one a line, or JSON Lines."),
    "why": ("why", "Run", "Say why a task waits, or what became of it."),
    "stop": ("stop", "Run", "Stop the runs of this project and everything that they started."),
    "demo": ("demo", "Run", "Work a small queue of real processes in a throw-away project; no account is needed."),
    "status": ("status", "Watch", "Count the tasks by state and show who works on what."),
    "list": ("list", "Watch", "List tasks, of all states or one."),
    "show": ("show", "Watch", "Show one task and everything that happened to it."),
    "log": ("log", "Watch", "Show what a task's last attempt printed."),
    "unblock": ("unblock", "Watch", "Return blocked tasks to the queue, with an answer."),
    "reset": ("reset", "Watch", "Return active or failed tasks to the queue."),
    "verify": ("verify", "Watch", "Replay the journal against the directories and name every disagreement."),
    "claim": ("claim", "Agents", "Claim the next task that may start now."),
    "heartbeat": ("heartbeat", "Agents", "Show that the holder of a task lives."),
    "done": ("done", "Agents", "Report a task as done, with what was observed."),
    "block": ("block", "Agents", "Park a task that a person must unblock."),
    "fail": ("fail", "Agents", "Report that an attempt failed."),
}
GROUPS = ("Every day", "Project", "Work in", "Run", "Watch", "Agents")


class Table(click.Group):
    """A group whose commands are modules of `agent_fleet.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = importlib.import_module(f"agent_fleet.commands.{entry[0]}").command_line
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"did you mean `fleet {near[0]}`? " if near else ""
            raise FleetError("usage", f"there is no command {args[0]!r}", hint=f"{hint}`fleet --help` lists them")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
        for group in GROUPS:
            rows = [(name, line) for name, (_, where, line) in COMMANDS.items() if where == group]
            with formatter.section(group):
                formatter.write_dl(rows)


@click.command(cls=Table, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.option("--version", is_flag=True, help="Show the version.")
@global_options
@click.pass_context
def fleet(context: click.Context, version: bool) -> None:
    """Run many coding agents on one task queue, at the parallelism that the work and this machine can take."""
    if version:
        from agent_fleet import __version__

        click.echo(f"fleet {__version__}")
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())


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
        _silence()
        return 0


def _run(args: list[str]) -> int:
    try:
        result = fleet.main(args, prog_name="fleet", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
    except FleetError as error:
        return refuse(error, args)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return refuse(FleetError("usage", "interrupted"), args, status=130)
    except click.ClickException as error:
        return refuse(_usage(error), args)
    except BrokenPipeError:
        raise
    except OSError as error:
        return refuse(errors.from_os_error(error, "cannot go on"), args)
    return result if isinstance(result, int) else 0


def _silence() -> None:
    """Lead what is still buffered nowhere, so that the interpreter does not fail once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


def refuse(error: FleetError, args: list[str], *, status: int | None = None) -> int:
    """Print an error in the form that was asked for; returns the exit status."""
    form = _asked_format(args)
    if form == "human":
        rows = [f"error: {error.message}", *(f"  {detail}" for detail in error.details)]
        rows += [f"hint: {error.hint}"] if error.hint else []
        click.echo(printable("\n".join(rows)), err=True)
    else:
        from agent_fleet.commands import encode

        payload: dict[str, Any] = {
            "ok": False,
            "code": error.code,
            "error": error.message,
            "details": list(error.details),
        }
        if error.hint:
            payload["hint"] = error.hint
        click.echo(encode(payload, form))
    return error.status if status is None else status


def _usage(error: click.ClickException) -> FleetError:
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fleet"
    message = error.format_message().rstrip(".")
    return FleetError("usage", message[:1].lower() + message[1:], hint=f"`{command} --help` shows how it is used")


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
