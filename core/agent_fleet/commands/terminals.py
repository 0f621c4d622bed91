"""The options that choose a form of the terminal lane, which several commands take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent_fleet.commands import Shared
from agent_fleet.errors import FleetError
from agent_fleet.run.outlook import TERMINAL


def form_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--terminals` for the option `lane` and the three forms; the command gets the chosen one, or None, as `form`."""
    for option in (
        click.option("--tmux", "form", flag_value="tmux", help="In tmux windows."),
        click.option("--windows", "form", flag_value="windows", help="In windows of a terminal emulator."),
        click.option("--vscode", "form", flag_value="editor", help="In terminals of this project's VS Code window."),
        click.option("--terminals", "lane", flag_value=TERMINAL, help="The same as --lane terminal."),
    ):
        function = option(function)
    return function


def choose(shared: Shared, lane: str | None, form: str | None) -> str:
    """The lane that a command is to use. A form is set for this command alone, and means the terminal lane."""
    if not form:
        return lane or ""
    if lane not in (None, "", TERMINAL):
        raise FleetError("usage", f"lane {lane} opens no terminals", hint="leave out the lane, or the form")
    shared.config.override("terminal.form", form, "command line")
    return TERMINAL
