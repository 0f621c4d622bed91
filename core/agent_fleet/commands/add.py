"""`fleet add`: add one task."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import click

from agent_fleet.commands import Shared, command, named, read_text
from agent_fleet.errors import FleetError
from agent_fleet.queue import intake, names
from agent_fleet.queue.store import BadFileError, read_bytes
from agent_fleet.queue.task import Habits, task_body


@command("add", help="Add a task: a sentence, an address, or `-` for standard input. Everything after `--` is text.")
@click.argument("text", nargs=-1)
@click.option("--file", "file", metavar="FILE", help="Read the task's text from a file, however long it is.")
@click.option("--title", help="A short name for lists.")
@click.option("--note", "notes", help="More for the worker to know; `-` reads standard input.")
@click.option("--priority", type=int, help="1 (first) to 9; 5 if not given.")
@click.option("--kind", help="A word of your own, such as review or form.")
@click.option("--need", type=click.Choice(names.NEEDS), help="What it needs; found from the text if not given.")
@click.option(
    "--lane", "--exec", "lane", help="The lane that must run it, or (the older name of --need) what it needs."
)
@click.option("--serial", is_flag=True, help="One at a time: the same as --lane serial.")
@click.option("--touches", multiple=True, metavar="PATH", help="A path or glob that it will write; may be repeated.")
@click.option("--writes", is_flag=True, help="It writes files; without --touches it then runs alone.")
@click.option("--needs", multiple=True, metavar="ID", help="A task that must be done first; may be repeated.")
@click.option("--check", metavar="COMMAND", help="A shell command that proves it: run by fleet, exit 0 means done.")
@click.option("--provider", help="The kind of agent that must do it.")
@click.option("--pool", help="The pool of accounts to take one from.")
@click.option("--model", help="The model that the agent is asked to use.")
@click.option("--budget", multiple=True, metavar="NAME=AMOUNT", help="tokens, money (US dollars), turns or seconds.")
@click.option("--source", help="Where the text comes from.")
@click.option("--untrusted", is_flag=True, help="The text comes from outside: agents treat it as data.")
def command_line(shared: Shared, text: tuple[str, ...], file: str | None, **options: Any) -> None:
    fields = given(options)
    fields["target"] = _target(text, file)
    bodies = [task_body(fields, habits(shared))]
    queue = shared.made_queue()
    task = intake.add(queue, bodies)[0]
    body = bodies[0]
    warn_of_wishes(shared, bodies)
    shared.emit(
        {"id": task, "need": body["need"], "priority": body["priority"], "host": body["host"] or None},
        lambda: f"{task} added: need {body['need']}, priority {body['priority']}",
    )


def habits(shared: Shared) -> Habits:
    """What this project says about new tasks."""
    config = shared.config
    return Habits(
        config.get("queue.browser_kinds"),
        config.get("queue.write_kinds"),
        undeclared_serial=config.get("queue.undeclared_writes") == "serial",
        roots=dict.fromkeys((shared.root, os.path.realpath(shared.root))),
    )


def warn_of_wishes(shared: Shared, bodies: Iterable[Mapping[str, Any]]) -> None:
    """Warn of wishes for what is not here. A wish may be for another machine, so its task is kept, and waits."""
    wishes = {(str(body.get("lane", "")), str(body.get("provider", "")), str(body.get("pool", ""))) for body in bodies}
    lanes, providers, pools = (sorted(set(names)) for names in zip(*wishes, strict=True)) if wishes else ((), (), ())
    for error in named.unknown(shared, lanes=lanes, providers=providers, pools=pools):
        shared.warn(f"{error.message}: tasks that wish for it wait; {error.hint}")


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The task's fields among a command's options; what was not given is left out."""
    fields = {name: value for name, value in options.items() if value not in (None, (), False)}
    if fields.pop("serial", False):
        fields["lane"] = "serial"
    if fields.get("lane") in names.NEEDS:
        _take_older_name(fields)
    if fields.pop("untrusted", False):
        fields["trust"] = "outside"
    if "budget" in fields:
        fields["budget"] = dict(_amount(part) for part in fields["budget"])
    if "notes" in fields:
        fields["notes"] = read_text(fields["notes"], "the note")
    return fields


def _take_older_name(fields: dict[str, Any]) -> None:
    """A need given as a lane. Beside a need of its own only `serial` makes sense: it is the name of a lane as well."""
    need = fields.setdefault("need", fields["lane"])
    if need == fields["lane"]:
        del fields["lane"]
    elif fields["lane"] != "serial":
        raise FleetError("usage", f"the task cannot need both {need} and {fields['lane']}", hint="give --need alone")


def _amount(text: str) -> tuple[str, float]:
    name, _, amount = text.partition("=")
    try:
        return name.strip(), float(amount)
    except ValueError:
        raise FleetError(
            "bad_input", f"--budget {text!r} is not NAME=AMOUNT", hint="write --budget tokens=50000"
        ) from None


def _target(text: tuple[str, ...], file: str | None) -> str:
    if file is not None:
        if text:
            raise FleetError(
                "usage", "give the text or --file, not both", hint="`fleet add --help` shows how it is used"
            )
        try:
            return read_bytes(file).decode("utf-8-sig")
        except (OSError, BadFileError, UnicodeDecodeError) as error:
            raise FleetError(
                "bad_input", f"cannot read {file} as text: {error}", hint="name a UTF-8 text file"
            ) from None
    if not text:
        raise FleetError(
            "usage", "say what is to be done", hint='fleet add "what is to be done", or - for standard input'
        )
    return read_text(" ".join(text), "the task")
