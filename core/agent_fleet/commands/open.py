"""`fleet open`: a run in terminals that goes on in the background."""

from __future__ import annotations

import click

from agent_fleet.commands import Shared, command, run, terminals
from agent_fleet.commands.terminals import form_options
from agent_fleet.run import outlook
from agent_fleet.run.outlook import TERMINAL, Wishes


@command("open", help="Start a run in at most N terminals that goes on in the background, and say where they are.")
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@form_options
@click.option("--provider", default="", help="The kind of agent for tasks that name none.")
@click.option("--pool", default="", metavar="NAME", help="Take an account of this pool for each agent.")
@click.option("--force", is_flag=True, help="Open terminals even where the machine has no room: the only way past it.")
@click.option("--trust-committed", is_flag=True, help="Work tasks and obey settings that came with the repository.")
def command_line(
    shared: Shared,
    number: int,
    lane: str | None,
    form: str | None,
    provider: str,
    pool: str,
    force: bool,
    trust_committed: bool,
) -> None:
    chosen = terminals.choose(shared, lane or TERMINAL, form)
    run.refuse(
        shared,
        Wishes(cap=number, lane=chosen, provider=provider, force=force, pool=pool),
        trust_committed=trust_committed,
    )
    options = [f"--{'vscode' if form == 'editor' else form}"] if form else ["--terminals"]
    options += ["--provider", provider] if provider else []
    options += ["--pool", pool] if pool else []
    options += ["--force"] if force else []
    options += ["--trust-committed"] if trust_committed else []
    where = outlook.forms(shared.config, shared.plugins, [TERMINAL])
    run.detached(shared, ["run", "--max", str(number), *shared.named, *options], where)
