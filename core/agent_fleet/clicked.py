"""The command line as click sees it: one group whose commands are modules, each loaded when it is typed."""

from __future__ import annotations

import importlib

import click

from agent_fleet.commands import global_options
from agent_fleet.commands.spec import Spec
from agent_fleet.commands.table import COMMANDS, GROUPS
from agent_fleet.errors import FleetError


class Table(click.Group):
    """A group whose commands are modules of `agent_fleet.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        found = importlib.import_module(f"agent_fleet.commands.{entry[0]}").command_line
        made: click.Command = found.as_click() if isinstance(found, Spec) else found
        return made

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


def work(args: list[str]) -> object:
    """Run one command line. Raises FleetError for everything that a person can mend, KeyboardInterrupt, OSError."""
    try:
        return fleet.main(args, prog_name="fleet", standalone_mode=False)
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        raise _usage(error) from None


def _usage(error: click.ClickException) -> FleetError:
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fleet"
    message = error.format_message().rstrip(".").removesuffix(" range")  # click says "not a valid integer range"
    hint = f"`{command} --help` shows how it is used"
    if isinstance(error, click.NoSuchOption) and command == "fleet add":
        hint += "; put -- before a text that begins with a dash"
    return FleetError("usage", message[:1].lower() + message[1:], hint=hint)
