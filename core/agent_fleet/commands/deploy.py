"""`fleet deploy`: a job taken apart, given to many agents, and put together again."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from agent_fleet.aggregate.verification import Terms
from agent_fleet.commands import Shared, command, deployed, run
from agent_fleet.commands.add import habits
from agent_fleet.commands.finite import Finite
from agent_fleet.deploy import contract, inputs, record, second
from agent_fleet.deploy.contract import Contract
from agent_fleet.deploy.draft import NO_INPUT, Request, draft
from agent_fleet.deploy.inputs import Input
from agent_fleet.deploy.record import Second
from agent_fleet.errors import FleetError
from agent_fleet.queue import names

_SETTINGS = (
    *("agents", "tokens", "turns", "seconds", "money", "need", "provider", "lane", "model", "pool", "check"),
    *("redispatch", "coverage", "escalate"),
)


@command(
    "deploy",
    help="Take a job apart, give it to many agents at once, and put together what they return.\n\n"
    "The job holds for each line, row or address of --inputs, for each file that git tracks below --repo, or is a goal that a "
    "model takes apart. No two agents work on the same item, and every item is accounted for.",
)
@click.option(
    "--task", "instruction", required=True, metavar="TEXT", help="What is to be done; `-` reads standard input."
)
@click.option("--agents", type=click.IntRange(min=1), metavar="N", help="How many agents work at once.")
@click.option("--inputs", "file", metavar="FILE", help="Lines, CSV or JSON Lines; `-` is standard input.")
@click.option(
    "--form", type=click.Choice(["lines", "csv", "jsonl"]), help="What the input is; by its name if not given."
)
@click.option("--repo", metavar="DIR", help="The files that git tracks below this directory of the project.")
@click.option("--decompose", "decomposer", metavar="NAME", help="How it is taken apart: items, files, llm.")
@click.option(
    "--parts", type=click.IntRange(min=1), metavar="N", help="Into how many parts; as many as agents if not given."
)
@click.option("--depth", type=click.IntRange(1, 5), default=1, help="How many levels a model's split may have.")
@click.option("--contract", "schema", metavar="FILE", help="The JSON Schema of what is returned for each item.")
@click.option(
    "--tokens", type=click.IntRange(min=0), metavar="N", help="Tokens that one agent may use; 0 sets no limit."
)
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="Turns that one agent may take.")
@click.option("--seconds", type=Finite(min=1), metavar="S", help="Seconds that one agent may take.")
@click.option("--money", type=Finite(min=0), default=0.0, metavar="X", help="US dollars for all of it.")
@click.option(
    "--need",
    type=click.Choice([need for need in names.NEEDS if need in ("agent", "browser")]),
    default="agent",
    help="What an agent needs.",
)
@click.option("--provider", default="", help="The kind of agent.")
@click.option("--lane", default="", help="The lane that runs the agents.")
@click.option("--model", default="", help="The model that they are asked to use.")
@click.option("--pool", default="", help="The pool of accounts to take one from.")
@click.option(
    "--check", default="", metavar="COMMAND", help="A shell command that proves each part: exit 0 means done."
)
@click.option("--tools", multiple=True, metavar="NAME", help="An MCP server that each agent gets; may be repeated.")
@click.option(
    "--redispatch", type=click.IntRange(0, 20), metavar="N", help="How often what an agent leaves is given out again."
)
@click.option(
    "--escalate", type=click.IntRange(0, 10), metavar="N", help="How many tiers up goes what a tier could not answer."
)
@click.option("--coverage", type=Finite(0, 1), metavar="X", help="The part of the items that must be answered.")
@click.option("--verify", is_flag=True, help="Have a second pool check a random sample of the answers.")
@click.option(
    "--verify-provider", default="", help="The kind of agent that checks; this and the next three imply --verify."
)
@click.option("--verify-model", default="", help="The model that checks.")
@click.option("--verify-pool", default="", help="The pool of accounts that those who check are from.")
@click.option("--verify-lane", default="", help="The lane that runs those who check.")
@click.option("--confidence", type=Finite(0, 1), metavar="X", help="How sure the check is to be; 0.95 if not given.")
@click.option(
    "--tolerated", type=Finite(0, 1), metavar="X", help="The part of wrong answers that is no reason to stop; 0.05."
)
@click.option("--found", type=Finite(0, 1), metavar="X", help="The part of wrong answers that has to be noticed; 0.2.")
@click.option("--seed", metavar="TEXT", help="What the sample is drawn by; drawn itself if not given.")
@click.option("--estimate", is_flag=True, help="Show what it would cost and take; start nothing.")
@click.option("--stagger", type=Finite(min=0), metavar="S", help="Seconds between two starts.")
@click.option("--force", is_flag=True, help="Start agents even where the machine has no room.")
@click.option("--trust-committed", is_flag=True, help="Work tasks and obey settings that came with the repository.")
@click.option("--detach", is_flag=True, help="Go on in the background, and return at once.")
def command_line(shared: Shared, instruction: str, **options: Any) -> int:
    if options["file"] == "-" and instruction == "-":
        raise FleetError("usage", "standard input can be the task or the inputs, not both", hint="give one as a file")
    instruction = shared.text(instruction, "the task").strip()
    if not instruction:
        raise FleetError("usage", "say what is to be done", hint='fleet deploy --task "…" --inputs FILE')
    request = _request(shared, instruction, options)
    deployed.refuse_unknown(shared, request.settings, request.second)
    deployed.refuse(shared, options["provider"], options["lane"], options["force"], options["trust_committed"])
    planning = deployed.planning(shared, options["money"])
    mind = deployed.mind(shared, options["provider"], options["model"], planning, estimate=options["estimate"])
    found = draft(
        *(shared.plugins, shared.config, habits(shared), request, mind),
        environ=shared.environ,
        judge=deployed.judge(shared, planning, estimate=options["estimate"]),
    )
    deployed.refuse_second(shared, found, options["force"], options["trust_committed"])
    if options["estimate"]:
        return deployed.estimate(shared, found)
    deployment = record.create(shared.made_queue(), found)
    for note in deployment.notes:
        shared.warn(note)
    if options["detach"]:
        extra = deployed.again(options["stagger"], options["force"], options["trust_committed"])
        run.detached(shared, ["resume-run", deployment.id, *shared.named, *extra], [f"fleet report {deployment.id}"])
        return 0
    return deployed.work(shared, deployment, force=options["force"], stagger=options["stagger"])


def _request(shared: Shared, instruction: str, options: dict[str, Any]) -> Request:
    return Request(
        instruction=instruction,
        input=_input(shared, options),
        source=_source(options),
        by=options["decomposer"] or ("files" if options["repo"] else ""),
        parts=options["parts"] or 0,
        depth=options["depth"],
        contract=contract.read(options["schema"]) if options["schema"] else Contract(),
        tools=options["tools"],
        settings={name: options[name] for name in _SETTINGS},
        second=_second(shared, options),
    )


def _second(shared: Shared, options: dict[str, Any]) -> Second | None:
    """The second pool, if one is asked for. Raises `usage` for terms of a check without one."""
    named = {name: options[f"verify_{name}"] for name in ("provider", "model", "pool", "lane")}
    terms = {name: options[name] for name in ("confidence", "tolerated", "found", "seed") if options[name] is not None}
    if not options["verify"] and not any(named.values()):
        if terms:
            raise FleetError("usage", f"--{next(iter(terms))} is for a check", hint="say --verify too")
        return None
    return second.wished(shared.config, **named, terms=Terms(**{"seed": "", **terms}))


def _input(shared: Shared, options: dict[str, Any]) -> Input:
    file, repo = options["file"], options["repo"]
    if file and repo:
        raise FleetError(
            "usage", "give --inputs or --repo, not both", hint="`fleet deploy --help` shows how it is used"
        )
    if file == "-":
        return inputs.parse(sys.stdin.buffer.read() if sys.stdin else b"", options["form"])
    if file:
        return inputs.read_file(file, options["form"])
    if repo:
        return inputs.tracked(shared.root, _below(shared, repo))
    return NO_INPUT


def _below(shared: Shared, directory: str) -> str:
    """A directory of the project relative to its root. Raises `bad_input` for any other."""
    root = os.path.realpath(shared.root)
    found = os.path.relpath(os.path.realpath(directory), root)
    if found == os.pardir or found.startswith(os.pardir + os.sep):
        raise FleetError(
            "bad_input", f"{directory} is not in the project {root}", hint="name that project with --project"
        )
    if not os.path.isdir(directory):
        raise FleetError("not_found", f"there is no directory {directory}", hint="name one of this project")
    return found


def _source(options: dict[str, Any]) -> str:
    if options["file"]:
        return "standard input" if options["file"] == "-" else f"file {options['file']}"
    return f"files below {options['repo']}" if options["repo"] else "a goal"
