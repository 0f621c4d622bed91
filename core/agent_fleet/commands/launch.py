"""`fleet launch`: windows that run a command of the person's, for agents that claim by themselves."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence

import click

from agent_fleet import machine
from agent_fleet.commands import Shared, command, run, terminals
from agent_fleet.commands.terminals import form_options
from agent_fleet.errors import FAULT, OK, FleetError
from agent_fleet.run import launch, outlook, roster
from agent_fleet.run.console import open_console
from agent_fleet.run.launch import Launcher
from agent_fleet.run.outlook import TERMINAL, Wishes
from agent_fleet.text import count


@command(
    "launch",
    help="Open N windows that run a command of yours, for agents that claim by themselves. It returns when they are open; "
    "`fleet stop` closes them, and tasks of an agent whose window is closed return to the queue.",
)
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@click.option(
    "--cmd",
    "text",
    required=True,
    metavar="C",
    help="The command, split into words as a shell would; no shell runs it.",
)
@click.option("--lane", default="", help="Start them in this lane; the terminal lane if not given.")
@form_options
@click.option("--force", is_flag=True, help="Open windows even where the machine has no room: the only way past it.")
@click.option(
    "--stay",
    is_flag=True,
    help="Stay here until all of them are closed. Ctrl-C gives their agents no more tasks, twice closes them.",
)
@click.option("--trust-committed", is_flag=True, help="Give out tasks and obey settings that came with the repository.")
def command_line(
    shared: Shared,
    number: int,
    text: str,
    lane: str | None,
    form: str | None,
    force: bool,
    stay: bool,
    trust_committed: bool,
) -> int:
    argv = words(text, shared.environ.get("PATH", os.defpath), shared.root)
    chosen = terminals.choose(shared, lane, form) or TERMINAL
    run.refuse(shared, Wishes(cap=number, lane=chosen, force=force), trust_committed=trust_committed)
    if not force:
        _refuse_without_room(shared, number, chosen)
    if stay:
        return _stay(shared, number, chosen, argv)
    options = [f"--{'vscode' if form == 'editor' else form}"] if form else ["--lane", chosen]
    options += ["--trust-committed"] if trust_committed else []
    arguments = ["launch", str(number), "--cmd", shlex.join(argv), "--stay", "--force", *shared.named, *options]
    found = run.in_background(shared, arguments, lambda each: launch.opened(each) is not None)
    opened = launch.opened(found.run) if found.run else None
    notes = outlook.forms(shared.config, shared.plugins, [chosen])
    name = found.run.id if found.run else None
    there = opened.number if opened else 0
    payload = {"run": name, "pid": found.pid, "log": found.log, "opened": there, "notes": notes}
    if opened and opened.why:
        shared.warn(f"{count(number - there, 'window')} could not be opened: {opened.why}")
    shared.emit(payload, lambda: "\n".join([_text(name, there, found.log), *notes]))
    return OK if there == number or not opened else FAULT


def words(text: str, path: str, root: str) -> tuple[str, ...]:
    """The words of a command. Raises FleetError for one that cannot be split, or whose program is not there."""
    try:
        found = tuple(shlex.split(text))
    except ValueError as error:
        raise FleetError(
            "bad_input", f"--cmd cannot be split into words: {error}", hint="quote it as you would in a shell"
        ) from None
    if not found or not found[0] or "\0" in text:
        raise FleetError("bad_input", "--cmd names no command", hint="--cmd 'claude --model sonnet'")
    if shutil.which(os.path.join(root, found[0]) if os.sep in found[0] else found[0], path=path) is None:
        raise FleetError(
            "not_found",
            f"there is no program {found[0]!r}",
            hint="install it, or give its path; what only a shell knows needs one: --cmd 'sh -c …'",
        )
    return found


def _refuse_without_room(shared: Shared, number: int, lane: str) -> None:
    at_work = len(roster.at_work(shared.queue))
    room = machine.measure(shared.plugins, shared.config, provider="", lane=lane, running=at_work).capacity.ceiling()
    if room.workers is not None and at_work + number > room.workers:
        raise FleetError(
            "unavailable",
            f"there is room for {count(max(0, room.workers - at_work), 'more window')}, not for {number}: {room.why}",
            hint="launch fewer, close others, or use --force",
        )


def _stay(shared: Shared, number: int, lane: str, argv: Sequence[str]) -> int:
    launcher = Launcher(
        shared.queue, shared.config, shared.plugins, open_console(), shared.environ, lane=lane, argv=argv
    )
    opened = launcher.work(number)
    if not opened.number:
        raise FleetError("run_failed", f"no window could be opened: {opened.why}", hint="`fleet plan` says why")
    payload = {"run": launcher.run.id, "opened": opened.number, "states": launcher.tally}
    shared.emit(payload, lambda: f"{launcher.run.id}: all windows are closed")
    return OK if opened.number == number else FAULT


def _text(name: str | None, opened: int, log: str) -> str:
    if name is None:
        return f"all windows are closed already; the log: {log}"
    return f"{name}: {count(opened, 'window')} opened; `fleet stop {name}` closes them; the log: {log}"
