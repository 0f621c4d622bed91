"""`fleet resume-run`: go on with a deployment whose driver ended, from what lies on disk."""

from __future__ import annotations

from dataclasses import asdict

import click

from agent_fleet.commands import Shared, command, deployed, run
from agent_fleet.commands.finite import Finite
from agent_fleet.deploy import record


@command(
    "resume-run",
    help="Go on with deployment RUN from its files: what is answered stays, what is missing is given out, nothing is done twice.",
)
@click.argument("name", metavar="RUN")
@click.option("--stagger", type=Finite(min=0), metavar="S", help="Seconds between two starts.")
@click.option("--force", is_flag=True, help="Start agents even where the machine has no room.")
@click.option("--trust-committed", is_flag=True, help="Work tasks and obey settings that came with the repository.")
@click.option("--detach", is_flag=True, help="Go on in the background, and return at once.")
def command_line(
    shared: Shared, name: str, stagger: float | None, force: bool, trust_committed: bool, detach: bool
) -> int:
    deployment = record.read(shared.queue, name)
    settings = deployment.settings
    deployed.refuse_unknown(shared, asdict(settings), deployment.second)
    deployed.refuse(shared, settings.provider, settings.lane, force, trust_committed)
    deployed.refuse_second(shared, deployment, force, trust_committed)
    if detach:
        extra = deployed.again(stagger, force, trust_committed)
        run.detached(shared, ["resume-run", name, *shared.named, *extra], [f"fleet report {name}"])
        return 0
    return deployed.work(shared, deployment, force=force, stagger=stagger)
